-- The next waiter is found without looking at the others.

create unique index if not exists waiter_order on holdfast.waiter (lock, ticket);
