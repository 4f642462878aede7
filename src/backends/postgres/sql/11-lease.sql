-- The leases. Row 0 of a lock is its first place and its memory, and every step on a lock locks it first. A lock that one claim
-- holds at a time has no other row, so its row is only ever updated in place. Further holders have a row each.
-- Times are µs since 1970, by the clock of the server.

create table if not exists holdfast.lease (
  -- In UTF-8: a name may have bytes that text cannot hold, and the order of bytes never changes, as that of a collation may.
  lock bytea not null,
  place bigint not null,
  -- In row 0: the greatest fence given so far.
  last bigint not null default 0,
  -- In row 0: whether there may be more rows of this lock, here or among the waiters. False is certain.
  crowded boolean not null default false,
  -- In row 0: until when an outcome is kept for this lock. 0: there is none. It stands here too, so that a single update can ask for it.
  done_us bigint not null default 0,
  -- The lease is over when this has passed. 0: none.
  until_us bigint not null default 0,
  claim text collate "C",
  -- Released before its minHold: no claim holds it, but its place is taken.
  kept boolean not null default false,
  shared boolean not null default false,
  most integer not null default 1,
  fence bigint not null default 0,
  run integer not null default 1,
  since_us bigint not null default 0,
  -- ttl and lockDelay: how long a heartbeat of its claim extends it.
  keep_ms bigint not null default 0,
  -- The lockDelay in it: in that last part of its time no process trusts it any more.
  delay_ms bigint not null default 0,
  min_hold_ms bigint not null default 0,
  -- The channel on which its process listens, if it does. With "!" after it, the holder wants to know when a claim begins to wait.
  inbox text collate "C",
  detail text,
  primary key (lock, place)
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
