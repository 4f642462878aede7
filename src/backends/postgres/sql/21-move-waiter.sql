-- Move the waiter in row 0 to the queue, if there is one. The caller has locked row 0.
--
-- $1 p_row_0
--
-- One that has what it waits for is not moved, and learns it when it asks again: a step of an older version, which runs to its end during an
-- upgrade, may have kept the outcome that it wants, or granted it the lock, and does not know this place.
--
-- Returns the row as it then is.

create or replace function holdfast.move_waiter(p_row_0 holdfast.lease) returns holdfast.lease
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  row_0 holdfast.lease := p_row_0;
  now_us bigint;
begin
  if (row_0.waiting).claim is not null then
    now_us := holdfast.now_us();
    -- A conflict cannot be, and an error would keep this lock from all steps for ever: who has lost its place asks again.
    insert into holdfast.waiter select (row_0.waiting).*
    where not ((row_0.waiting).wants and row_0.done_us > now_us)
      and (row_0.claim = (row_0.waiting).claim and row_0.until_us > now_us) is not true
    on conflict do nothing;
    update holdfast.lease as l set waiting = null, crowded = true where l.lock = row_0.lock and l.place = 0 returning * into row_0;
  end if;
  return row_0;
end
$function$;
