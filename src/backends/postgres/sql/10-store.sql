-- One row about the whole store: the version of these tables, the timeline on which they were last written, the quarantine after
-- a change of it, and the greatest fence of any lock whose row was removed.

create table if not exists holdfast.store (
  one boolean primary key default true check (one),
  version integer not null,
  timeline text not null,
  -- When a change of the timeline was noticed, µs since 1970.
  changed_us bigint not null default 0,
  -- The longest that any process asked for. 0: none did.
  quarantine_ms bigint not null default 0,
  floor bigint not null default 0
) with (fillfactor = 50);
