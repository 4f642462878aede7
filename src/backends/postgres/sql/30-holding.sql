-- A holder as others see it, as JSON. "remainder": no process holds it any more, and this keeps the lock taken.
--
-- $1 p_lease
-- $2 p_now

create or replace function holdfast.holding(p_lease holdfast.lease, p_now bigint) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  return json_build_object(
    'kind', 'held', 'lock', encode(p_lease.lock, 'hex'), 'id', p_lease.claim, 'shared', p_lease.shared, 'most', p_lease.most,
    'fence', p_lease.fence::text, 'held', (p_now - p_lease.since_us) / 1000, 'left', (p_lease.until_us - p_now) / 1000,
    'detail', p_lease.detail, 'remainder', case
      when p_lease.kept then 'minHold'
      when p_lease.delay_ms > 0 and p_lease.until_us - p_lease.delay_ms * 1000 <= p_now then 'lockDelay' end);
end
$function$;
