-- Remove leases and tickets that are over, and grant to the waiters who are next, as many as fit. The caller has locked row 0.
--
-- $1 p_lock
-- $2 p_now
-- $3 p_asking
-- $4 p_young
--
-- Returns true if no claim waits.

create or replace function holdfast.promote(p_lock bytea, p_now bigint, p_asking text, p_young bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  next_one holdfast.waiter;
  holders bigint;
  all_shared boolean;
  granted text[];
  waited_for boolean;
  has_more boolean;
begin
  -- A row that a renewal has locked is waited for, and judged by what the renewal made of it.
  delete from holdfast.lease as l where l.lock = p_lock and l.place > 0 and l.until_us <= p_now;
  -- The claim that asks is alive, whatever its ticket says. One that would hold for longer than a quarantine covers queued before that was
  -- asked for: it is refused when it asks again; see young().
  delete from holdfast.waiter as w where w.lock = p_lock and ((w.till_us <= p_now and w.claim <> p_asking)
    or w.ttl_ms + w.delay_ms + 2000 > (select nullif(s.quarantine_ms, 0) from holdfast.store as s));
  select count(*), bool_and(l.shared) into holders, all_shared
  from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now;
  loop
    select * into next_one from holdfast.waiter as w where w.lock = p_lock order by w.ticket limit 1;
    waited_for := found;
    exit when not waited_for or p_young > 0;
    exit when holders > 0 and (all_shared <> next_one.shared or (not next_one.shared and holders >= next_one.most));
    delete from holdfast.waiter as w where w.lock = p_lock and w.claim = next_one.claim;
    -- It lasts from the last sign of life: its process trusts it from there, and a dead one keeps it no longer.
    perform holdfast.grant_lease(next_one, p_now, next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000);
    holders := holders + 1;
    all_shared := next_one.shared;
    if next_one.claim <> p_asking then
      granted := granted || next_one.claim;
    end if;
  end loop;
  -- After the last grant, when it is known who still waits.
  if granted is not null then
    perform holdfast.send_news(l.inbox, l.claim, holdfast.run(l, p_now))
    from holdfast.lease as l where l.lock = p_lock and l.claim = any (granted);
  end if;
  has_more := waited_for or exists (select from holdfast.lease as l where l.lock = p_lock and l.place > 0);
  update holdfast.lease as l set crowded = has_more where l.lock = p_lock and l.place = 0 and l.crowded <> has_more;
  return not waited_for;
end
$function$;
