-- What the work under a lease came to, kept after the lease. One for each lock; row 0 of the lock says until when, and outlives it.

create table if not exists holdfast.outcome (
  lock bytea primary key,
  claim text collate "C" not null,
  fence bigint not null,
  kept_us bigint not null,
  till_us bigint not null,
  -- Who held the lease.
  detail text,
  -- In UTF-8: it may have bytes that text cannot hold.
  value bytea not null
);
