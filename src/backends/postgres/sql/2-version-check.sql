-- Functions of a later version must not be replaced by older ones. Raises LK005 then.

do $function$
begin
  if pg_catalog.to_regclass('holdfast.store') is not null then
    if (select s.version from holdfast.store as s) > 3 then
      raise exception 'The tables in the schema holdfast were made by a later version of Holdfast: nothing was changed'
        using errcode = 'LK005', hint = 'Run the migration of that version, or none.';
    end if;
  end if;
end
$function$;
