-- Remove what is over, in the next rows from p_from on: tickets, leases, outcomes, records of force, and rows of locks that were not used for
-- p_idle ms. What another transaction has locked is left. The floor keeps fences rising when a lock's row is made again.
--
-- $1 p_from
-- $2 p_rows
-- $3 p_idle
--
-- Returns the name at which to go on, in hex: "" after the last.

create or replace function holdfast.clean(p_from bytea, p_rows integer, p_idle bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  now_us bigint := holdfast.now_us();
  candidate record;
  row_0 holdfast.lease;
  seen integer := 0;
  next_from bytea := ''::bytea;
  greatest_fence bigint := 0;
begin
  perform holdfast.begin_step();
  delete from holdfast.forced as f where f.ctid = any (array(
    select o.ctid from holdfast.forced as o where o.at_us < now_us - 3600 * 1000000::bigint limit p_rows for update skip locked));
  for candidate in
    select l.lock, l.place, greatest(l.until_us, l.since_us) as used_us, l.done_us from holdfast.lease as l
    where l.lock >= p_from order by l.lock, l.place limit p_rows
  loop
    seen := seen + 1;
    next_from := candidate.lock;
    continue when candidate.place > 0 or candidate.done_us > now_us
      or (candidate.done_us = 0 and candidate.used_us > now_us - p_idle * 1000);
    select * into row_0 from holdfast.lease as l where l.lock = candidate.lock and l.place = 0 for update skip locked;
    continue when not found or row_0.done_us > now_us;
    if row_0.done_us > 0 then
      delete from holdfast.outcome as o where o.lock = candidate.lock;
      update holdfast.lease as l set done_us = 0 where l.lock = candidate.lock and l.place = 0;
    end if;
    continue when greatest(row_0.until_us, row_0.since_us, row_0.done_us, (row_0.waiting).till_us) > now_us - p_idle * 1000;
    if row_0.crowded then
      delete from holdfast.waiter as w where w.lock = candidate.lock and w.till_us <= now_us - p_idle * 1000;
      delete from holdfast.lease as l where l.lock = candidate.lock and l.place > 0 and l.until_us <= now_us;
      continue when exists (select from holdfast.waiter as w where w.lock = candidate.lock)
        or exists (select from holdfast.lease as l where l.lock = candidate.lock and l.place > 0);
    end if;
    delete from holdfast.lease as l where l.lock = candidate.lock and l.place = 0;
    greatest_fence := greatest(greatest_fence, row_0.last);
  end loop;
  if greatest_fence > 0 then
    update holdfast.store as s set floor = greatest_fence where s.floor < greatest_fence;
  end if;
  -- The last name again, unless it was the only one: more of its rows may follow.
  return case when seen < p_rows then '' when next_from = p_from then encode(next_from || '\x00'::bytea, 'hex') else encode(next_from, 'hex') end;
end
$function$;
