-- The high-water mark per lock: the greatest fence that any checked transaction has brought.

create table if not exists holdfast.fence_mark (
  lock text primary key,
  fence bigint not null check (fence >= 0)
);
