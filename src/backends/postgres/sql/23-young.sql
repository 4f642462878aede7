-- How many ms nothing may be granted, because this server was promoted and may not have the last leases of the one before.
-- Each promotion begins a timeline. A quarantine that any process asked for holds for all.
--
-- $1 p_quarantine
-- $2 p_longest
--
-- p_longest: how long the lease that is asked for would last without a renewal, in ms; 0 for none. Raises LK006 if that is longer than what
-- a quarantine covers, which processes that did not ask for one would not notice.

create or replace function holdfast.young(p_quarantine bigint, p_longest bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  known holdfast.store;
  timeline_now text;
begin
  select * into known from holdfast.store;
  if p_quarantine = 0 and known.quarantine_ms = 0 then
    return 0;
  end if;
  timeline_now := pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8);
  if known.timeline <> timeline_now or known.quarantine_ms < p_quarantine then
    update holdfast.store as s set
      quarantine_ms = greatest(s.quarantine_ms, p_quarantine),
      changed_us = case when s.timeline = timeline_now then s.changed_us else holdfast.now_us() end,
      timeline = timeline_now
    returning * into known;
  end if;
  -- 2000 ms: as much as the quarantine is longer than the longest lease; see options.ts.
  if p_longest + 2000 > known.quarantine_ms and p_longest > 0 then
    raise exception 'its ttl and lockDelay (% ms) are longer than `maxTtl` of a process that asked for a quarantine after fail-overs (% ms), so that would end before it',
      p_longest, known.quarantine_ms - 2000 using errcode = 'LK006', hint = 'Use a shorter ttl, or a longer maxTtl in every process.';
  end if;
  return greatest(0, (known.changed_us + known.quarantine_ms * 1000 - holdfast.now_us() + 999) / 1000);
end
$function$;
