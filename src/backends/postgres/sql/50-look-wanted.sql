-- Which of these leases another claim waits for: for processes that no message reaches.
--
-- $1 p_locks
-- $2 p_claims
--
-- Returns a letter for each claim: w wanted, y not wanted, n not held.

create or replace function holdfast.look_wanted(p_locks bytea[], p_claims text[]) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $function$
  -- Read once, because the clock is volatile. Before Postgres 12 there is no word for it.
  with at as (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us)
  select string_agg(coalesce((
    select case when holdfast.wanted(l, at.us) then 'w' else 'y' end from holdfast.lease as l
    where l.lock = a.lock and l.claim = a.claim and l.until_us > at.us and not l.kept), 'n'), '' order by a.n)
  from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n), at
$function$;
