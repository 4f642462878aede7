-- End a claim, held or queued, and pass the lock to the next ones in the same step.
--
-- $1 p_lock
-- $2 p_claim
-- $3 p_min_hold
-- $4 p_quarantine
--
-- Returns "held", "queued" or "absent".

create or replace function holdfast.release(p_lock bytea, p_claim text, p_min_hold bigint, p_quarantine bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  now_us bigint;
  was text;
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  -- The usual case: there is no other claim, and no minHold. The claim held the lock when this step began.
  if p_min_hold = 0 then
    update holdfast.lease as l set until_us = 0, claim = null
    where l.lock = p_lock and l.place = 0 and not l.crowded and l.claim = p_claim and not l.kept
      and l.until_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    if found then
      return 'held';
    end if;
  end if;
  row_0 := holdfast.open_lock(p_lock, false);
  if row_0.lock is null then
    return 'absent';
  end if;
  now_us := holdfast.now_us();
  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);
  if row_0.crowded then
    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine));
  end if;
  return was;
end
$function$;
