-- The holders of these leases want to know from now on when a claim begins to wait. A lock that another transaction has locked is passed over.
--
-- $1 p_locks
-- $2 p_claims
-- $3 p_inbox
--
-- Returns a letter for each claim: w wanted already, y not wanted yet (a message will say it), n not held, b passed over.

create or replace function holdfast.expect_wanted(p_locks bytea[], p_claims text[], p_inbox text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  asked record;
  mine holdfast.lease;
  now_us bigint;
  letters text[] := array_fill('b'::text, array[cardinality(p_claims)]);
begin
  perform holdfast.begin_step();
  for asked in
    select a.lock, a.claim, a.n from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) order by a.lock, a.n
  loop
    -- Who begins to wait has locked row 0: it came before, and is seen now, or it finds the mark.
    perform from holdfast.lease as l where l.lock = asked.lock and l.place = 0 for update skip locked;
    continue when not found and exists (select from holdfast.lease as l where l.lock = asked.lock and l.place = 0);
    now_us := holdfast.now_us();
    update holdfast.lease as l set inbox = p_inbox || '!'
    where l.lock = asked.lock and l.claim = asked.claim and l.until_us > now_us and not l.kept
    returning * into mine;
    letters[asked.n] := case when mine.lock is null then 'n' when holdfast.wanted(mine, now_us) then 'w' else 'y' end;
  end loop;
  -- A hint need not survive a crash. Nothing was granted here.
  perform set_config('synchronous_commit', 'off', true);
  return array_to_string(letters, '');
end
$function$;
