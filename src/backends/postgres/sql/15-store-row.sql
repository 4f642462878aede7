-- The one row of the store.

insert into holdfast.store (version, timeline)
values (3, pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))
on conflict (one) do update set version = greatest(holdfast.store.version, excluded.version);
