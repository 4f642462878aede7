-- What a process must know before it begins, and doctor wants to know.
--
-- Returns JSON.

create or replace function holdfast.store_facts() returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $function$
  select json_build_object(
    'version', s.version, 'timeline', s.timeline, 'changed', s.changed_us, 'quarantine', s.quarantine_ms, 'floor', s.floor::text)::text
  from holdfast.store as s
$function$;
