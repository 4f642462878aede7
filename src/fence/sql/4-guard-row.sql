-- A row trigger that never lets a row's fence go down, on any path: create it
-- `before update … for each row execute function holdfast.guard_row('fence')`.
--
-- $1 column

create or replace function holdfast.guard_row() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  fence_column text := coalesce(tg_argv[0], 'fence');
  current bigint;
  offered bigint;
begin
  execute format('select ($1).%1$I, ($2).%1$I', fence_column) into current, offered using old, new;
  if current is not null and (offered is null or offered < current) then
    raise exception 'Fence % of a row of % is too old: fence % has already been here', offered, tg_relid::regclass, current
      using errcode = 'LK001',
      detail = jsonb_build_object('current', current::text, 'offered', coalesce(offered, 0)::text)::text;
  end if;
  return new;
end
$function$;
