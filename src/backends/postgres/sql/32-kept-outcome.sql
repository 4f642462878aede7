-- The outcome that is kept for a lock, as JSON; null: there is none.
--
-- $1 p_lock
-- $2 p_now

create or replace function holdfast.kept_outcome(p_lock bytea, p_now bigint) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  return (select json_build_object(
    'kind', 'outcome', 'lock', encode(o.lock, 'hex'), 'fence', o.fence::text, 'age', (p_now - o.kept_us) / 1000,
    'left', (o.till_us - p_now + 999) / 1000, 'detail', o.detail, 'value', encode(o.value, 'hex'))::text
  from holdfast.outcome as o where o.lock = p_lock and o.till_us > p_now);
end
$function$;
