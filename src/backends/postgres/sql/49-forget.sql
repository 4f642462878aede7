-- Remove the outcome of the lease whose run begins with the given fence, and nothing else.
--
-- $1 p_lock
-- $2 p_fence
--
-- Returns "yes", or "no" if there is none.

create or replace function holdfast.forget(p_lock bytea, p_fence bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
begin
  perform holdfast.begin_step();
  perform holdfast.open_lock(p_lock, false);
  delete from holdfast.outcome as o where o.lock = p_lock and o.fence = p_fence and o.till_us > holdfast.now_us();
  if not found then
    return 'no';
  end if;
  update holdfast.lease as l set done_us = 0 where l.lock = p_lock and l.place = 0;
  return 'yes';
end
$function$;
