-- End a claim and keep the outcome of its work, if it holds by the lease under which that was done. Those who wait for an outcome leave the
-- queue and have news, one message for each process; the others come next, as after a release.
--
-- $1 p_lock
-- $2 p_claim
-- $3 p_min_hold
-- $4 p_quarantine
-- $5 p_fence
-- $6 p_keep
-- $7 p_value
--
-- Returns "held" also if the outcome was kept before; "queued"; or "absent".

create or replace function holdfast.finish(
  p_lock bytea, p_claim text, p_min_hold bigint, p_quarantine bigint, p_fence bigint, p_keep bigint, p_value bytea
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  mine holdfast.lease;
  now_us bigint;
  was text;
begin
  perform holdfast.begin_step();
  row_0 := holdfast.open_lock(p_lock, false);
  if row_0.lock is null then
    return 'absent';
  end if;
  now_us := holdfast.now_us();
  select * into mine from holdfast.lease as l
  where l.lock = p_lock and l.claim = p_claim and l.fence = p_fence and l.until_us > now_us and not l.kept;
  if found then
    insert into holdfast.outcome as o (lock, claim, fence, kept_us, till_us, detail, value)
    values (p_lock, p_claim, p_fence, now_us, now_us + p_keep * 1000, mine.detail, p_value)
    on conflict (lock) do update set
      claim = excluded.claim, fence = excluded.fence, kept_us = excluded.kept_us, till_us = excluded.till_us,
      detail = excluded.detail, value = excluded.value;
    update holdfast.lease as l set done_us = now_us + p_keep * 1000 where l.lock = p_lock and l.place = 0;
    perform holdfast.send_news(n.inbox, n.claim, 'outcome') from (
      select w.inbox, min(w.claim) as claim from holdfast.waiter as w
      where w.lock = p_lock and w.wants and w.inbox is not null group by w.inbox) as n;
    delete from holdfast.waiter as w where w.lock = p_lock and w.wants;
  end if;
  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);
  if row_0.crowded then
    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));
  end if;
  if mine.lock is not null or exists (
    select from holdfast.outcome as o where o.lock = p_lock and o.claim = p_claim and o.fence = p_fence and o.till_us > now_us)
  then
    return 'held';
  end if;
  -- What it held was another lease than that of its work.
  return case when was = 'held' then 'absent' else was end;
end
$function$;
