-- Who holds, who waits, and which leases were ended by force, of all locks in a range of names, at one instant.
--
-- $1 p_from
-- $2 p_to
--
-- Returns JSON, one text for each.

create or replace function holdfast.look(p_from bytea, p_to bytea) returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $function$
  -- Read once, because the clock is volatile. Before Postgres 12 there is no word for it.
  with at as (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us)
  select holdfast.holding(l, at.us)::text from holdfast.lease as l, at
  where l.lock >= p_from and (p_to is null or l.lock < p_to) and l.until_us > at.us
  union all
  select json_build_object(
    'kind', 'waiting', 'lock', encode(w.lock, 'hex'), 'id', w.claim, 'shared', w.shared, 'most', w.most,
    'waiting', (at.us - w.since_us) / 1000, 'place', row_number() over (partition by w.lock order by w.ticket),
    'since', w.since_us::text, 'detail', w.detail)::text
  from (
    select q.lock, q.claim, q.shared, q.most, q.ticket, q.since_us, q.till_us, q.detail from holdfast.waiter as q
    union all
    select
      l.lock, (l.waiting).claim, (l.waiting).shared, (l.waiting).most, (l.waiting).ticket, (l.waiting).since_us, (l.waiting).till_us,
      (l.waiting).detail
    from holdfast.lease as l where l.place = 0 and (l.waiting).claim is not null
  ) as w, at
  where w.lock >= p_from and (p_to is null or w.lock < p_to) and w.till_us > at.us
  union all
  select json_build_object(
    'kind', 'forced', 'lock', encode(f.lock, 'hex'), 'fence', f.fence::text, 'ago', (at.us - f.at_us) / 1000, 'who', f.who)::text
  from holdfast.forced as f, at
  where f.lock >= p_from and (p_to is null or f.lock < p_to) and f.at_us > at.us - 3600 * 1000000::bigint
$function$;
