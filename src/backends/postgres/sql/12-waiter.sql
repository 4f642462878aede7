-- The queue. Rows of a lock are only touched by a transaction that has locked the lock's row 0.

create table if not exists holdfast.waiter (
  lock bytea not null,
  claim text collate "C" not null,
  -- The order of arrival.
  ticket bigint not null,
  -- The last sign of life, and the end of the ticket if there is no other until then.
  asked_us bigint not null,
  till_us bigint not null,
  ticket_ms bigint not null,
  shared boolean not null,
  most integer not null,
  run integer not null,
  ttl_ms bigint not null,
  delay_ms bigint not null,
  min_hold_ms bigint not null,
  since_us bigint not null,
  -- It takes an outcome instead of the lock, if there is one.
  wants boolean not null,
  inbox text collate "C",
  detail text,
  primary key (lock, claim)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
