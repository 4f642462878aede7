-- End all leases of a lock by force and grant it to the claim, before all who wait. A claim that holds it keeps it, and ends nothing.
--
-- $1 p_who
-- $2 p_lock
-- $3 p_claim
-- $4 p_shared
-- $5 p_most
-- $6 p_ttl
-- $7 p_delay
-- $8 p_min_hold
-- $9 p_run
-- $10 p_ticket
-- $11 p_inbox
-- $12 p_detail
-- $13 p_wants
-- $14 p_quarantine
--
-- Returns what enter() returns, except outcomes.

create or replace function holdfast.steal(
  p_who text, p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint, p_min_hold bigint,
  p_run integer, p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  terms holdfast.waiter;
  mine holdfast.lease;
  young bigint;
  now_us bigint;
  known_limit integer;
begin
  perform holdfast.begin_step();
  perform holdfast.open_lock(p_lock, true);
  young := holdfast.young(p_quarantine, p_ttl + p_delay);
  now_us := holdfast.now_us();
  terms := row(
    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail
  )::holdfast.waiter;
  mine := holdfast.keep_on(terms, now_us);
  if mine.lock is not null then
    return holdfast.run(mine, now_us);
  end if;
  delete from holdfast.waiter as w where w.lock = p_lock and w.claim = p_claim;
  if young > 0 then
    return holdfast.refusal(p_lock, p_claim, now_us, young);
  end if;
  -- Holders do not count, because they end; those who wait do.
  select w.most into known_limit from holdfast.waiter as w
  where w.lock = p_lock and not w.shared and w.till_us > now_us order by w.ticket limit 1;
  if not p_shared and known_limit <> p_most then
    return 'limit ' || known_limit;
  end if;
  perform holdfast.end_by_force(h.lease, p_who, now_us)
  from (select l as lease from holdfast.lease as l where l.lock = p_lock and l.until_us > now_us order by l.place) as h;
  perform holdfast.grant_lease(terms, now_us, now_us + (p_ttl + p_delay) * 1000);
  -- Who waits may hold beside the thief: readers beside a reader, or others up to the limit.
  perform holdfast.promote(p_lock, now_us, '', 0);
  select * into mine from holdfast.lease as l where l.lock = p_lock and l.claim = p_claim and l.until_us > now_us and not l.kept;
  return holdfast.run(mine, now_us);
end
$function$;
