-- What a refused claim learns. `place`: its own in the queue, 0 if it does not wait. `last`: the greatest fence given so far, so
-- that each later grant has a greater one. `ahead`: ms until the first lease is over. `held`: some of the holders.
--
-- $1 p_lock
-- $2 p_claim
-- $3 p_now
-- $4 p_young

create or replace function holdfast.refusal(p_lock bytea, p_claim text, p_now bigint, p_young bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  return 'refused ' || json_build_object(
    'place', (
      select count(*) from holdfast.waiter as w, holdfast.waiter as mine
      where mine.lock = p_lock and mine.claim = p_claim and w.lock = p_lock and w.ticket <= mine.ticket),
    'young', p_young, 'now', p_now::text,
    'last', (select l.last::text from holdfast.lease as l where l.lock = p_lock and l.place = 0),
    'ahead', (
      select (min(l.until_us) - p_now) / 1000 + 1 from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now),
    'held', (
      select json_agg(holdfast.holding(h.lease, p_now))
      from (select l as lease from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now order by l.fence limit 8) as h)
  );
end
$function$;
