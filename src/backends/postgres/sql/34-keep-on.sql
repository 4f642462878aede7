-- A claim that holds the lock and asks for it again keeps it, never for a shorter time than before, and says anew who it is.
--
-- $1 p_terms
-- $2 p_now
--
-- Returns its lease, or null if it holds none.

create or replace function holdfast.keep_on(p_terms holdfast.waiter, p_now bigint) returns holdfast.lease
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  mine holdfast.lease;
  new_until bigint := p_now + (p_terms.ttl_ms + p_terms.delay_ms) * 1000;
begin
  update holdfast.lease as l set
    until_us = greatest(l.until_us, new_until), keep_ms = p_terms.ttl_ms + p_terms.delay_ms,
    delay_ms = case when l.until_us > new_until then l.delay_ms else p_terms.delay_ms end,
    inbox = case when rtrim(l.inbox, '!') = p_terms.inbox then l.inbox else p_terms.inbox end, detail = p_terms.detail
  where l.lock = p_terms.lock and l.claim = p_terms.claim and l.until_us > p_now and not l.kept
  returning * into mine;
  return mine;
end
$function$;
