// Generated from ../sql/*.sql by scripts/build-sql.mjs. Do not edit.

/**
 * Everything is in a schema of its own and named in full, so no search_path can split a mark in two. What exists already
 * must belong to the role that runs this: otherwise another role's triggers on our tables would run with the rights of
 * every guarded role. Raises LK003 otherwise.
 */
export const SCHEMA: string = "do $function$\ndeclare\n  me constant oid := (select r.oid from pg_catalog.pg_roles as r where r.rolname = current_user);\n  stranger record;\nbegin\n  if not exists (select from pg_catalog.pg_namespace as n where n.nspname = 'holdfast') then\n    -- Not \"if not exists\": a stranger's that came in between must fail it.\n    create schema holdfast;\n  end if;\n  select made.what, pg_catalog.pg_get_userbyid(made.owner) as owner into stranger\n  from pg_catalog.pg_namespace as n\n  cross join lateral (\n    select 'schema holdfast' as what, n.nspowner as owner\n    union all\n    select 'relation holdfast.' || c.relname, c.relowner from pg_catalog.pg_class as c where c.relnamespace = n.oid\n    union all\n    select 'function holdfast.' || p.proname, p.proowner from pg_catalog.pg_proc as p where p.pronamespace = n.oid\n    union all\n    select 'type holdfast.' || t.typname, t.typowner from pg_catalog.pg_type as t where t.typnamespace = n.oid\n    union all\n    select 'operator holdfast.' || o.oprname, o.oprowner from pg_catalog.pg_operator as o where o.oprnamespace = n.oid\n  ) as made\n  where n.nspname = 'holdfast' and made.owner <> me\n  limit 1;\n  if stranger.owner is not null then\n    raise exception 'The % belongs to role \"%\", not to \"%\", who runs this migration: nothing was changed', stranger.what, stranger.owner, current_user\n      using errcode = 'LK003',\n      hint = 'If you trust that role, run the migration as it (SET ROLE). If not, find out who made it, and drop it.';\n  end if;\nend\n$function$";

/**
 * The high-water mark per lock: the greatest fence that any checked transaction has brought.
 */
export const FENCE_MARK: string = "create table if not exists holdfast.fence_mark (\n  lock text primary key,\n  fence bigint not null check (fence >= 0)\n)";

/**
 * Admit a fence in this transaction, or raise LK001. The row stays locked until the transaction ends, so no
 * later holder gets in between the check and the commit.
 *
 * $1 lock
 * $2 offered
 *
 * Returns the mark, which is the offered fence.
 */
export const CHECK_FENCE: string = "create or replace function holdfast.check_fence(lock text, offered bigint) returns bigint\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  current bigint;\n  checked jsonb := coalesce(nullif(current_setting('holdfast.checked', true), ''), '{}')::jsonb;\nbegin\n  insert into holdfast.fence_mark as mark values (check_fence.lock, check_fence.offered)\n  on conflict on constraint fence_mark_pkey do update set fence = greatest(mark.fence, excluded.fence)\n  returning mark.fence into current;\n  if current > offered then\n    raise exception 'Fence % of lock \"%\" is too old: fence % has already been here', offered, lock, current\n      using errcode = 'LK001',\n      detail = jsonb_build_object('lock', lock, 'current', current::text, 'offered', offered::text)::text;\n  end if;\n  perform set_config('holdfast.checked', (checked || jsonb_build_object(lock, offered::text))::text, true);\n  return current;\nend\n$function$";

/**
 * A row trigger that never lets a row's fence go down, on any path: create it
 * `before update … for each row execute function holdfast.guard_row('fence')`.
 *
 * $1 column
 */
export const GUARD_ROW: string = "create or replace function holdfast.guard_row() returns trigger\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  fence_column text := coalesce(tg_argv[0], 'fence');\n  current bigint;\n  offered bigint;\nbegin\n  execute format('select ($1).%1$I, ($2).%1$I', fence_column) into current, offered using old, new;\n  if current is not null and (offered is null or offered < current) then\n    raise exception 'Fence % of a row of % is too old: fence % has already been here', offered, tg_relid::regclass, current\n      using errcode = 'LK001',\n      detail = jsonb_build_object('current', current::text, 'offered', coalesce(offered, 0)::text)::text;\n  end if;\n  return new;\nend\n$function$";

/**
 * A statement trigger for writers who forget: it refuses every write in a transaction that has not passed
 * holdfast.check_fence() for a lock whose name is like the pattern. Create it
 * `before insert or update or delete or truncate … for each statement execute function holdfast.require_fence('account:%')`.
 *
 * $1 pattern
 */
export const REQUIRE_FENCE: string = "create or replace function holdfast.require_fence() returns trigger\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  pattern text := coalesce(tg_argv[0], '%');\n  checked jsonb := coalesce(nullif(current_setting('holdfast.checked', true), ''), '{}')::jsonb;\nbegin\n  if not exists (select from jsonb_object_keys(checked) as lock where lock like pattern) then\n    raise exception 'A write to % needs the fence of a lock like \"%\" in the same transaction', tg_relid::regclass, pattern\n      using errcode = 'LK002', hint = 'Call holdfast.check_fence(lock, fence) first.';\n  end if;\n  return null;\nend\n$function$";

/**
 * Raise the mark unless it is higher already.
 *
 * $1 lock
 * $2 offered
 *
 * Returns the mark as it then is.
 */
export const ADVANCE: string = "insert into holdfast.fence_mark as mark (lock, fence) values ($1, $2::bigint)\non conflict (lock) do update set fence = greatest(mark.fence, excluded.fence)\nreturning fence::text as fence";

/**
 * Admit a fence in this transaction, or raise LK001.
 *
 * $1 lock
 * $2 offered
 */
export const CHECK: string = "select holdfast.check_fence($1, $2::bigint)";
