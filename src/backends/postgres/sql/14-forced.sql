-- Who ended which lease by force, and why: kept for an hour.

create table if not exists holdfast.forced (
  lock bytea not null,
  fence bigint not null,
  claim text collate "C" not null,
  at_us bigint not null,
  who text not null,
  primary key (lock, fence)
);
