-- Lock row 0 of a lock until the transaction ends, and return it as it then is: whatever other transactions did to this lock
-- before is committed, and whatever they do next waits. A lock without rows gets one if p_make says so. All waiters are in the queue then.
--
-- $1 p_lock
-- $2 p_make

create or replace function holdfast.open_lock(p_lock bytea, p_make boolean) returns holdfast.lease
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  row_0 holdfast.lease;
begin
  loop
    select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
    if found or not p_make then
      return holdfast.move_waiter(row_0);
    end if;
    insert into holdfast.lease as l (lock, place) values (p_lock, 0) on conflict do nothing;
    if found then
      -- The floor is read after the insert: a removal of the row that came before it has been committed, with its floor.
      update holdfast.lease as l set last = s.floor from holdfast.store as s where l.lock = p_lock and l.place = 0;
    end if;
  end loop;
end
$function$;
