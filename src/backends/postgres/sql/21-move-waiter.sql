-- Move the waiter in row 0 to the queue, if there is one. The caller has locked row 0.
--
-- $1 p_row_0
--
-- Returns the row as it then is.

create or replace function holdfast.move_waiter(p_row_0 holdfast.lease) returns holdfast.lease
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  row_0 holdfast.lease := p_row_0;
begin
  if (row_0.waiting).claim is not null then
    -- A conflict cannot be, and an error would keep this lock from all steps for ever: who has lost its place asks again.
    insert into holdfast.waiter select (row_0.waiting).* on conflict do nothing;
    update holdfast.lease as l set waiting = null, crowded = true where l.lock = row_0.lock and l.place = 0 returning * into row_0;
  end if;
  return row_0;
end
$function$;
