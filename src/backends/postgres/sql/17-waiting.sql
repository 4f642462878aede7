-- In row 0 of a lock: its only waiter, while there is one holder and nobody else, which saves a row in the queue with two indexes.
-- Then `crowded` is false. Whatever comes next moves it to the queue. If the table cannot be locked soon, this fails, and the migration
-- with it: all steps wait behind it.

do $function$
begin
  if not exists (
    select from pg_catalog.pg_attribute as a
    where a.attrelid = 'holdfast.lease'::pg_catalog.regclass and a.attname = 'waiting' and not a.attisdropped)
  then
    perform pg_catalog.set_config('lock_timeout', '1s', true);
    alter table holdfast.lease add column waiting holdfast.waiter;
  end if;
end
$function$;
