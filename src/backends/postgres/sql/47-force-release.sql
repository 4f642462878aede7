-- End the lease whose run of fences contains the given one, tell its holder, and grant to the next ones.
--
-- $1 p_lock
-- $2 p_fence
-- $3 p_who
-- $4 p_quarantine
--
-- Returns "yes", or "no" if no lease has that fence.

create or replace function holdfast.force_release(p_lock bytea, p_fence bigint, p_who text, p_quarantine bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  hit holdfast.lease;
  now_us bigint;
begin
  perform holdfast.begin_step();
  row_0 := holdfast.open_lock(p_lock, false);
  if row_0.lock is null then
    return 'no';
  end if;
  now_us := holdfast.now_us();
  select * into hit from holdfast.lease as l
  where l.lock = p_lock and l.until_us > now_us and p_fence between l.fence and l.fence + l.run - 1;
  if not found then
    return 'no';
  end if;
  perform holdfast.end_by_force(hit, p_who, now_us);
  perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));
  return 'yes';
end
$function$;
