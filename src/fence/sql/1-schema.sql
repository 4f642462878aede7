-- Everything is in a schema of its own and named in full, so no search_path can split a mark in two. What exists already
-- must belong to the role that runs this: otherwise another role's triggers on our tables would run with the rights of
-- every guarded role. Raises LK003 otherwise.

do $function$
declare
  me constant oid := (select r.oid from pg_catalog.pg_roles as r where r.rolname = current_user);
  stranger record;
begin
  if not exists (select from pg_catalog.pg_namespace as n where n.nspname = 'holdfast') then
    -- Not "if not exists": a stranger's that came in between must fail it.
    create schema holdfast;
  end if;
  select made.what, pg_catalog.pg_get_userbyid(made.owner) as owner into stranger
  from pg_catalog.pg_namespace as n
  cross join lateral (
    select 'schema holdfast' as what, n.nspowner as owner
    union all
    select 'relation holdfast.' || c.relname, c.relowner from pg_catalog.pg_class as c where c.relnamespace = n.oid
    union all
    select 'function holdfast.' || p.proname, p.proowner from pg_catalog.pg_proc as p where p.pronamespace = n.oid
    union all
    select 'type holdfast.' || t.typname, t.typowner from pg_catalog.pg_type as t where t.typnamespace = n.oid
    union all
    select 'operator holdfast.' || o.oprname, o.oprowner from pg_catalog.pg_operator as o where o.oprnamespace = n.oid
  ) as made
  where n.nspname = 'holdfast' and made.owner <> me
  limit 1;
  if stranger.owner is not null then
    raise exception 'The % belongs to role "%", not to "%", who runs this migration: nothing was changed', stranger.what, stranger.owner, current_user
      using errcode = 'LK003',
      hint = 'If you trust that role, run the migration as it (SET ROLE). If not, find out who made it, and drop it.';
  end if;
end
$function$;
