-- Renew leases, many in one step, each with its own answer. The rows are locked in the order of their keys, so that two such steps
-- never wait for each other. p_wait: how long a row that another transaction has locked is waited for, in ms; with 0 it is passed over.
--
-- $1 p_locks
-- $2 p_claims
-- $3 p_fences
-- $4 p_ttl
-- $5 p_delay
-- $6 p_details
-- $7 p_wait
--
-- p_details: what those claims say of themselves that have something new to say, by their number.
-- Returns a letter for each claim: y renewed, w renewed and wanted, n not held, o held with another fence, b passed over.

create or replace function holdfast.renew(
  p_locks bytea[], p_claims text[], p_fences bigint[], p_ttl bigint, p_delay bigint, p_details jsonb, p_wait bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  now_us bigint;
  new_until bigint;
  numbers bigint[];
  locks bytea[];
  places bigint[];
  answer text;
begin
  perform holdfast.begin_step();
  perform holdfast.young(0, p_ttl + p_delay);
  if p_wait > 0 then
    perform set_config('lock_timeout', p_wait::text, true);
    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (
      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)
      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l) as m;
  else
    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (
      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)
      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l skip locked) as m;
  end if;
  -- Read when the rows are locked: a lease that ended meanwhile is not renewed.
  now_us := holdfast.now_us();
  new_until := now_us + (p_ttl + p_delay) * 1000;
  with mine as (
    select m.n, l.lock, l.place, l.fence = coalesce(p_fences[m.n], l.fence) as same,
      -- Row 0 of a lock that is not crowded knows that no claim waits.
      (l.crowded or l.place > 0 or (l.waiting).claim is not null) and holdfast.wanted(l, now_us) as wanted
    from unnest(numbers, locks, places) as m (n, lock, place)
    join holdfast.lease as l on l.lock = m.lock and l.place = m.place
    where l.claim = p_claims[m.n] and l.until_us > now_us and not l.kept
  ), renewed as (
    update holdfast.lease as l set
      until_us = greatest(l.until_us, new_until), keep_ms = p_ttl + p_delay,
      delay_ms = case when l.until_us > new_until then l.delay_ms else p_delay end,
      detail = coalesce(p_details ->> m.n::text, l.detail)
    from mine as m
    where l.lock = m.lock and l.place = m.place and m.same
  )
  select string_agg(case
    when m.same and m.wanted then 'w'
    when m.same then 'y'
    when m.n is not null then 'o'
    when p_wait > 0 or a.n = any (numbers) or not exists (
      select from holdfast.lease as l where l.lock = a.lock and l.claim = a.claim and l.until_us > now_us and not l.kept) then 'n'
    else 'b' end, '' order by a.n) into answer
  from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) left join mine as m on m.n = a.n;
  return answer;
end
$function$;
