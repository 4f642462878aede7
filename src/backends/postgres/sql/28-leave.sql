-- End a claim, held or queued. The caller has locked row 0, and lets the next ones in.
--
-- $1 p_lock
-- $2 p_claim
-- $3 p_min_hold
-- $4 p_now
--
-- Returns "held", "queued" or "absent".

create or replace function holdfast.leave(p_lock bytea, p_claim text, p_min_hold bigint, p_now bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  mine holdfast.lease;
  kept_us bigint;
begin
  delete from holdfast.waiter as w where w.lock = p_lock and w.claim = p_claim;
  if found then
    return 'queued';
  end if;
  select * into mine from holdfast.lease as l
  where l.lock = p_lock and l.claim = p_claim and l.until_us > p_now and not l.kept;
  if not found then
    return 'absent';
  end if;
  -- A process that resumes another's lease need not know its terms: those of the lease count, if it says -1.
  -- A clock that was set back since must not make it longer.
  kept_us := least(mine.since_us, p_now) + 1000 * case when p_min_hold < 0 then mine.min_hold_ms else p_min_hold end;
  if kept_us > p_now then
    update holdfast.lease as l set kept = true, until_us = kept_us where l.lock = p_lock and l.place = mine.place;
  elsif mine.place = 0 then
    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lock and l.place = 0;
  else
    delete from holdfast.lease as l where l.lock = p_lock and l.place = mine.place;
  end if;
  return 'held';
end
$function$;
