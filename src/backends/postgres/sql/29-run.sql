-- What a claim learns of its lease: "granted <fence> <run>", and " w" if another claim waits for it.
--
-- $1 p_lease
-- $2 p_now

create or replace function holdfast.run(p_lease holdfast.lease, p_now bigint) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  return 'granted ' || p_lease.fence || ' ' || p_lease.run || case when holdfast.wanted(p_lease, p_now) then ' w' else '' end;
end
$function$;
