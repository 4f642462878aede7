-- The clock of the server, µs since 1970. Not that of the transaction, which stands still while a step waits for a row.

create or replace function holdfast.now_us() returns bigint
language sql volatile parallel unsafe set search_path = pg_catalog, pg_temp as $function$
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint
$function$;
