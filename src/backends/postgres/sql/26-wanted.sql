-- Whether a claim that waits is in need of what this one holds: readers are all in its way, and of several holders the oldest is.
--
-- $1 p_lease
-- $2 p_now

create or replace function holdfast.wanted(p_lease holdfast.lease, p_now bigint) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  return (
    exists (select from holdfast.waiter as w where w.lock = p_lease.lock and w.till_us > p_now)
    or exists (select from holdfast.lease as z where z.lock = p_lease.lock and z.place = 0 and (z.waiting).till_us > p_now)
  ) and (
    p_lease.shared or not exists (
      select from holdfast.lease as o
      where o.lock = p_lease.lock and o.until_us > p_now and not o.kept and o.fence < p_lease.fence));
end
$function$;
