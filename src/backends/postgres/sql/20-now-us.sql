-- The clock of the server, µs since 1970. Not that of the transaction, which stands still while a step waits for a row.
-- In plpgsql, as all functions that steps call: it keeps their plans, and a function in SQL would be planned in each transaction anew.

create or replace function holdfast.now_us() returns bigint
language plpgsql volatile parallel unsafe set search_path = pg_catalog, pg_temp as $function$
begin
  return (extract(epoch from clock_timestamp()) * 1000000)::bigint;
end
$function$;
