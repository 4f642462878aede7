-- A statement trigger for writers who forget: it refuses every write in a transaction that has not passed
-- holdfast.check_fence() for a lock whose name is like the pattern. Create it
-- `before insert or update or delete or truncate … for each statement execute function holdfast.require_fence('account:%')`.
--
-- $1 pattern

create or replace function holdfast.require_fence() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  pattern text := coalesce(tg_argv[0], '%');
  checked jsonb := coalesce(nullif(current_setting('holdfast.checked', true), ''), '{}')::jsonb;
begin
  if not exists (select from jsonb_object_keys(checked) as lock where lock like pattern) then
    raise exception 'A write to % needs the fence of a lock like "%" in the same transaction', tg_relid::regclass, pattern
      using errcode = 'LK002', hint = 'Call holdfast.check_fence(lock, fence) first.';
  end if;
  return null;
end
$function$;
