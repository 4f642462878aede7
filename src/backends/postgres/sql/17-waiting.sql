-- In row 0 of a lock: its only waiter, while there is one holder and no other claim, which saves a row in the queue with two indexes.
-- Then `crowded` is false. Whatever comes next moves it to the queue. All steps wait behind this, so it gives up soon, lets them pass, and
-- tries again; after some tries it fails, and the migration with it. Each try is longer than `deadlock_timeout`, after which the server ends
-- an automatic clean-up that is in the way.

do $function$
declare
  limit_before text := pg_catalog.current_setting('lock_timeout');
begin
  for tries_left in reverse 5..0 loop
    exit when exists (
      select from pg_catalog.pg_attribute as a
      where a.attrelid = 'holdfast.lease'::pg_catalog.regclass and a.attname = 'waiting' and not a.attisdropped);
    begin
      perform pg_catalog.set_config('lock_timeout', '1500ms', true);
      alter table holdfast.lease add column if not exists waiting holdfast.waiter;
      perform pg_catalog.set_config('lock_timeout', limit_before, true);
    exception when lock_not_available then
      if tries_left = 0 then
        raise;
      end if;
      perform pg_catalog.pg_sleep(0.2);
    end;
  end loop;
end
$function$;
