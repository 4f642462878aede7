-- Admit a fence in this transaction, or raise LK001. The row stays locked until the transaction ends, so no
-- later holder gets in between the check and the commit.
--
-- $1 lock
-- $2 offered
--
-- Returns the mark, which is the offered fence.

create or replace function holdfast.check_fence(lock text, offered bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  current bigint;
  checked jsonb := coalesce(nullif(current_setting('holdfast.checked', true), ''), '{}')::jsonb;
begin
  insert into holdfast.fence_mark as mark values (check_fence.lock, check_fence.offered)
  on conflict on constraint fence_mark_pkey do update set fence = greatest(mark.fence, excluded.fence)
  returning mark.fence into current;
  if current > offered then
    raise exception 'Fence % of lock "%" is too old: fence % has already been here', offered, lock, current
      using errcode = 'LK001',
      detail = jsonb_build_object('lock', lock, 'current', current::text, 'offered', offered::text)::text;
  end if;
  perform set_config('holdfast.checked', (checked || jsonb_build_object(lock, offered::text))::text, true);
  return current;
end
$function$;
