-- End many claims in one step, each as release() does. The locks are gone through in the order of their names, so that two such steps
-- never wait for each other. With p_wait false, a lock with a row that is needed and that another transaction has locked is passed over. With
-- p_wait true it is waited for, but all of them together for 3 s: what has to wait longer is passed over, and undoes nothing of the others.
--
-- $1 p_locks
-- $2 p_claims
-- $3 p_min_holds
-- $4 p_quarantine
-- $5 p_wait
--
-- Returns a letter for each claim: h held, q queued, a absent, b passed over.

create or replace function holdfast.release_many(
  p_locks bytea[], p_claims text[], p_min_holds bigint[], p_quarantine bigint, p_wait boolean
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  one record;
  row_0 holdfast.lease;
  now_us bigint := holdfast.now_us();
  patient boolean := p_wait;
  flushed text;
  letters text[] := array_fill('b'::text, array[cardinality(p_locks)]);
begin
  perform holdfast.begin_step();
  flushed := current_setting('synchronous_commit');
  for one in
    select a.n, a.lock, a.claim, a.min_hold from unnest(p_locks, p_claims, p_min_holds) with ordinality as a (lock, claim, min_hold, n)
    order by a.lock, a.n
  loop
    if patient then
      begin
        letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);
      exception when lock_not_available then
        patient := false;
      end;
      patient := patient and holdfast.now_us() - now_us < 3000000;
      continue;
    end if;
    select * into row_0 from holdfast.lease as l where l.lock = one.lock and l.place = 0 for update skip locked;
    continue when not found;
    if row_0.crowded then
      -- Those that a release may remove: its own, and those that are over.
      perform l.place from holdfast.lease as l
      where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us())
      except select f.place from (
        select l.place from holdfast.lease as l
        where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us()) for update skip locked) as f;
      continue when found;
    end if;
    letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);
  end loop;
  -- A release that no claim waits for turns it off, for the whole transaction: others in it may have granted.
  perform set_config('synchronous_commit', flushed, true);
  return array_to_string(letters, '');
end
$function$;
