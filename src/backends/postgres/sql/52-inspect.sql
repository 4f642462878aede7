-- All that is known of one lock, at one instant of the store. It changes nothing.
--
-- $1 p_lock
-- $2 p_quarantine
--
-- Returns JSON, one text for each: what look() returns, the outcome, and for how many ms nothing is granted.

create or replace function holdfast.inspect(p_lock bytea, p_quarantine bigint) returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $function$
  -- The first name behind it, in the order of bytes.
  select l.shown from holdfast.look(p_lock, p_lock || '\x00'::bytea) as l (shown)
  union all
  select o.shown from holdfast.kept_outcome(p_lock, holdfast.now_us()) as o (shown) where o.shown is not null
  union all
  select json_build_object('kind', 'young', 'lock', encode(p_lock, 'hex'), 'left', y.ms)::text
  from (
    -- As young() counts it.
    select greatest(s.quarantine_ms, p_quarantine) + case
      when s.timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) then (s.changed_us - holdfast.now_us() + 999) / 1000
      else 0 end as ms
    from holdfast.store as s where greatest(s.quarantine_ms, p_quarantine) > 0 and not pg_is_in_recovery()
  ) as y where y.ms > 0
$function$;
