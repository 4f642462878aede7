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
  news text;
  -- In a batch, an earlier release may have granted. Those of version 1 do not flush it themselves, and this may be called in the middle of one.
  is_first boolean := txid_current_if_assigned() is null;
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
  if not found then
    return 'absent';
  end if;
  -- Read when the row is locked: waiting for it took time.
  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  if (row_0.waiting).claim is not null then
    -- The usual case of a lock that two take turns on: its only holder leaves, and the only waiter is like it and alive.
    if p_min_hold = 0 and p_quarantine = 0 and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept and not row_0.shared
      and row_0.most = 1 and not row_0.crowded and (row_0.waiting).claim <> p_claim
      and not ((row_0.waiting).wants and row_0.done_us > now_us)
    then
      next_one := row_0.waiting;
      new_fence := greatest(row_0.last + 1, now_us);
      new_run := case when new_fence = now_us then next_one.run else 1 end;
      update holdfast.lease as l set
        last = new_fence + new_run - 1, until_us = next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000,
        claim = next_one.claim, fence = new_fence, run = new_run, since_us = now_us,
        keep_ms = next_one.ttl_ms + next_one.delay_ms, delay_ms = next_one.delay_ms, min_hold_ms = next_one.min_hold_ms, inbox = next_one.inbox,
        detail = next_one.detail, waiting = null
      where l.lock = p_lock and l.place = 0 and next_one.till_us > now_us
        and not exists (select from holdfast.store as s where s.quarantine_ms > 0);
      if found then
        if next_one.inbox is not null then
          -- As send_news() does it.
          news := ' granted ' || new_fence || ' ' || new_run || ' ';
          news := pg_notify(next_one.inbox, left(next_one.claim, 8) || news || left(
            encode(sha256(convert_to(next_one.claim || rtrim(news), 'UTF8')), 'hex'), 24))::text;
        end if;
        return 'held';
      end if;
    end if;
    row_0 := holdfast.move_waiter(row_0);
  end if;
  -- The usual case: there is no other claim, and no minHold.
  if p_min_hold = 0 and not row_0.crowded and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept then
    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lock and l.place = 0;
    -- No claim waits for it, so this need not wait for the disk: a crash that forgets it only leaves the lock taken until the lease would have
    -- ended. The next claim that gets the lock before that has a commit that is flushed, and this one with it. An end that is far away is flushed.
    if is_first and row_0.until_us - now_us <= 60000000 then
      news := set_config('synchronous_commit', 'off', true);
    end if;
    return 'held';
  end if;
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
      if next_one.inbox is not null then
        -- As send_news() does it.
        news := ' granted ' || new_fence || ' ' || new_run || case when more then ' w ' else ' ' end;
        news := pg_notify(next_one.inbox, left(next_one.claim, 8) || news || left(
          encode(sha256(convert_to(next_one.claim || rtrim(news), 'UTF8')), 'hex'), 24))::text;
      end if;
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
