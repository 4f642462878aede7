-- An operator says that no lease which this server may have lost is still alive.

create or replace function holdfast.end_quarantine() returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $function$
  update holdfast.store as s set
    changed_us = 0, timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
  returning 'ended'
$function$;
