-- The next waiter is found without looking at the others. Not `if not exists`, which locks the queue before it looks: an upgrade has the
-- table of leases for itself by then, and no step may wait for it while it waits for another.

do $function$
begin
  if pg_catalog.to_regclass('holdfast.waiter_order') is null then
    create unique index waiter_order on holdfast.waiter (lock, ticket);
  end if;
end
$function$;
