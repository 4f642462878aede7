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
  next_one holdfast.waiter;
  now_us bigint;
  new_fence bigint;
  new_run integer;
  was text;
  more boolean;
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
  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
  if not found then
    return 'absent';
  end if;
  -- Read when the row is locked: waiting for it took time.
  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  -- The usual case of a lock that is wanted by many: its only holder leaves, and the next waiter is like it and alive. As promote()
  -- and grant_lease() do it. Beside such a holder there are no rows but those of leases that are over.
  if p_min_hold = 0 and p_quarantine = 0 and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept
    and not row_0.shared and row_0.most = 1
  then
    delete from holdfast.waiter as w
    where w.lock = p_lock and w.ticket = (select min(f.ticket) from holdfast.waiter as f where f.lock = p_lock)
      and w.till_us > now_us and not w.shared and w.most = 1
      and not exists (select from holdfast.store as s where s.quarantine_ms > 0)
    returning * into next_one;
    if found then
      new_fence := greatest(row_0.last + 1, now_us);
      new_run := case when new_fence = now_us then next_one.run else 1 end;
      update holdfast.lease as l set
        last = new_fence + new_run - 1, until_us = next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000,
        claim = next_one.claim, fence = new_fence, run = new_run, since_us = now_us,
        keep_ms = next_one.ttl_ms + next_one.delay_ms, delay_ms = next_one.delay_ms, min_hold_ms = next_one.min_hold_ms, inbox = next_one.inbox,
        detail = next_one.detail,
        crowded = exists (select from holdfast.waiter as w where w.lock = p_lock)
          or exists (select from holdfast.lease as o where o.lock = p_lock and o.place > 0)
      where l.lock = p_lock and l.place = 0
      returning l.crowded into more;
      perform holdfast.send_news(next_one.inbox, next_one.claim, 'granted ' || new_fence || ' ' || new_run || case when more then ' w' else '' end);
      return 'held';
    end if;
  end if;
  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);
  if row_0.crowded then
    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));
  end if;
  return was;
end
$function$;
