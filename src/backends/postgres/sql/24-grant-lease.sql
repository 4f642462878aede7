-- Give a claim a lease. The caller has locked row 0 and found that the claim fits beside the others.
--
-- $1 p_terms
-- $2 p_now
-- $3 p_until
--
-- Returns the fence and the run, with a space between them.

create or replace function holdfast.grant_lease(p_terms holdfast.waiter, p_now bigint, p_until bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  row_0 holdfast.lease;
  new_fence bigint;
  new_run integer := 1;
begin
  select * into row_0 from holdfast.lease as l where l.lock = p_terms.lock and l.place = 0;
  new_fence := greatest(row_0.last + 1, p_now);
  -- Where several hold at a time, a later holder of this run would be below an earlier one of the next. And while the counter
  -- is ahead of the clock, it must not run further ahead.
  if not p_terms.shared and p_terms.most = 1 and new_fence = p_now then
    new_run := p_terms.run;
  end if;
  if row_0.until_us <= p_now then
    update holdfast.lease as l set
      last = new_fence + new_run - 1, until_us = p_until, claim = p_terms.claim, kept = false, shared = p_terms.shared,
      most = p_terms.most, fence = new_fence, run = new_run, since_us = p_now, keep_ms = p_terms.ttl_ms + p_terms.delay_ms,
      delay_ms = p_terms.delay_ms, min_hold_ms = p_terms.min_hold_ms, inbox = p_terms.inbox, detail = p_terms.detail
    where l.lock = p_terms.lock and l.place = 0;
  else
    update holdfast.lease as l set last = new_fence, crowded = true where l.lock = p_terms.lock and l.place = 0;
    insert into holdfast.lease (
      lock, place, until_us, claim, shared, most, fence, run, since_us, keep_ms, delay_ms, min_hold_ms, inbox, detail
    ) values (
      p_terms.lock, (select max(l.place) + 1 from holdfast.lease as l where l.lock = p_terms.lock), p_until, p_terms.claim,
      p_terms.shared, p_terms.most, new_fence, new_run, p_now, p_terms.ttl_ms + p_terms.delay_ms, p_terms.delay_ms,
      p_terms.min_hold_ms, p_terms.inbox, p_terms.detail
    );
  end if;
  return new_fence || ' ' || new_run;
end
$function$;
