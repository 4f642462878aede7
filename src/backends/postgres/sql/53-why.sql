-- Who ended claims by force, and why.
--
-- $1 p_locks
-- $2 p_claims
--
-- Returns JSON: for each claim that was, its id and what the one who did it said.

create or replace function holdfast.why(p_locks bytea[], p_claims text[]) returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $function$
  select coalesce(json_object_agg(f.claim, f.who), '{}')::text
  from unnest(p_locks, p_claims) as a (lock, claim) join holdfast.forced as f on f.lock = a.lock and f.claim = a.claim
$function$;
