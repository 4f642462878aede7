/**
 * The statements. Each is one step on one row: who finds the row changed after it has waited for it judges it anew, as it then is. Times are
 * those of the server, in UTC without a zone, as ShedLock's `usingDbTime()` writes them. ShedLock never deletes a row, because its processes
 * remember which rows there are, so no statement here does.
 */
import { FORCED } from "./rows.ts";

export interface Statements {
  readonly attempt: string;
  /** Passes over a row that another transaction has locked. */
  readonly renew: string;
  /** Waits for it, for $2 ms at most. */
  readonly renewWaiting: string;
  readonly release: string;
  readonly forceRelease: string;
  readonly query: string;
  readonly why: string;
}

const NOW = "pg_catalog.timezone('utc', pg_catalog.clock_timestamp())";
const ms = (value: string): string => `${value}::text::bigint * interval '1 millisecond'`;
/** People write `infinity` to keep a job from running. Neither that nor a time that is as far away can be calculated with. */
const LAST = "timestamp '9999-12-31'";
const finite = (column: string): string => `least(greatest(${column}, timestamp '1000-01-01'), ${LAST})`;
const us = (column: string): string => `(extract(epoch from ${finite(column)}) * 1000000)::bigint`;
/**
 * For the transaction of this statement only: what was reported survives a crash of the server, whatever the role's setting is; and a row that
 * another transaction has locked is not waited for until long after its process has given up.
 */
const settings = (waitMs: string): string =>
  `(select pg_catalog.set_config('synchronous_commit', case pg_catalog.current_setting('synchronous_commit')
  when 'off' then 'on' else pg_catalog.current_setting('synchronous_commit') end, true) || pg_catalog.set_config('lock_timeout', ${waitMs}, true))`;
/** Part of a `with`, it is done once, because set_config() is volatile. Before Postgres 12 there is no word for it. */
const DURABLE = settings("'3s'");
/** Whether a claim holds this row, by its id: another process of the same claim may have another holder. See rows.ts. */
const isOf = (id: string): string => `pg_catalog.right(l.locked_by, 23) = ' ' || ${id}`;
/** The minHold that the release names, or -1 for that of the row. */
const HOLD = `case when $3::text::bigint < 0
  then coalesce(pg_catalog.substring(l.locked_by, ' [+]([0-9]{1,15}) .{22}$')::bigint, 0) else $3::text::bigint end * interval '1 millisecond'`;
const SHOWN = `pg_catalog.json_build_object('name', l.name, 'by', l.locked_by, 'fence', ${us("l.locked_at")}::text,
  'held', extract(epoch from ${NOW} - ${finite("l.locked_at")}) * 1000, 'left', extract(epoch from ${finite("l.lock_until")} - ${NOW}) * 1000)::text`;

export function statementsFor(table: string): Statements {
  return {
    // $1 name, $2 locked_by, $3 ttl and lockDelay, $4 the claim's id. A claim that holds keeps its lease, and never for a shorter time than before.
    attempt: `with durable as (select ${DURABLE} as setting), taken as (
  insert into ${table} as l (name, lock_until, locked_at, locked_by)
  select $1::text, ${NOW} + ${ms("$3")}, ${NOW}, $2::text from durable
  on conflict (name) do update set
    locked_at = case when ${isOf("$4::text")} and l.lock_until > ${NOW} then l.locked_at
      when l.locked_at < ${LAST} then greatest(${NOW}, l.locked_at + interval '1 microsecond') else ${NOW} end,
    lock_until = case when ${isOf("$4::text")} then greatest(l.lock_until, ${NOW} + ${ms("$3")}) else ${NOW} + ${ms("$3")} end,
    -- With the minHold that it had, if another process has resumed it.
    locked_by = case when ${isOf("$4::text")} and l.lock_until > ${NOW} then l.locked_by else excluded.locked_by end
  where l.lock_until <= ${NOW} or ${isOf("$4::text")}
  returning ${us("l.locked_at")}::text as fence)
select pg_catalog.json_build_object('granted', t.fence)::text as answer from taken as t
union all
select ${SHOWN} from ${table} as l where l.name = $1::text and not exists (select from taken)`,

    renew: renewal(table, "'3s'", " skip locked"),
    renewWaiting: renewal(table, "$2::text", ""),

    // $1 name, $2 the claim's id, $3 minHold.
    release: `update ${table} as l set
  -- Not from a time that is still to come, by another clock or one that was set back.
  lock_until = greatest(${NOW}, least(l.locked_at, ${NOW}) + ${HOLD}),
  -- No claim holds it any more.
  locked_by = pg_catalog.left(l.locked_by, -22) || '~' || $2::text
from (select ${DURABLE} as setting offset 0) as durable
where l.name = $1::text and ${isOf("$2::text")} and l.lock_until > ${NOW} and durable.setting is not null
returning 'held' as answer`,

    // $1 name, $2 fence, $3 who ends it and why. The id of a claim of ours stays, so that its next renewal finds this.
    forceRelease: `update ${table} as l set lock_until = ${NOW},
  locked_by = $3::text || ' !' || coalesce(pg_catalog.substring(l.locked_by, ' ([A-Za-z0-9_-]{22})$'), '')
from (select ${DURABLE} as setting offset 0) as durable
where l.name = $1::text and ${us("l.locked_at")} = $2::text::bigint and l.lock_until > ${NOW} and durable.setting is not null
returning 'yes' as answer`,

    // $1 the beginning of the names, $2 true: the whole name.
    query: `select ${SHOWN} as answer from ${table} as l
where pg_catalog.starts_with(l.name, $1::text) and ($2::text = 'false' or l.name = $1::text) 
  and (l.lock_until > ${NOW} or (pg_catalog.starts_with(l.locked_by, '${FORCED}') and l.lock_until > ${NOW} - interval '1 hour'))
order by l.name`,

    // $1 JSON: name and id for each. Who ended these claims by force, as far as no other claim has taken the lock since.
    why: `select pg_catalog.json_object_agg(a.id, l.locked_by)::text as answer
from pg_catalog.json_to_recordset($1::text::json) as a (name text, id text)
join ${table} as l on l.name = a.name and pg_catalog.starts_with(l.locked_by, '${FORCED}') and pg_catalog.right(l.locked_by, 23) = '!' || a.id`,
  };
}

/** $1 JSON: n, name, id, fence or null, and ms for each. A letter for each: y renewed, o held with another fence, n not held, b passed over. */
function renewal(table: string, waitMs: string, passing: string): string {
  return `with durable as (select ${settings(waitMs)} as setting), asked as (
  select a.* from pg_catalog.json_to_recordset($1::text::json) as a (n integer, name text, id text, fence bigint, ms bigint), durable
), mine as (
  select a.n, l.name, ${us("l.locked_at")} = coalesce(a.fence, ${us("l.locked_at")}) as same, a.ms, a.id
  from asked as a join ${table} as l on l.name = a.name and ${isOf("a.id")}
  where l.lock_until > ${NOW} order by l.name for update of l${passing}
), renewed as (
  update ${table} as l set lock_until = greatest(l.lock_until, ${NOW} + m.ms * interval '1 millisecond')
  from mine as m where l.name = m.name and ${isOf("m.id")} and m.same and l.lock_until > ${NOW}
  returning m.n
)
select pg_catalog.string_agg(case when r.n is not null then 'y' when m.n is not null and not m.same then 'o'
  when m.n is null and exists (select from ${table} as l where l.name = a.name and ${isOf("a.id")} and l.lock_until > ${NOW}) then 'b'
  else 'n' end, '' order by a.n) as answer
from asked as a left join mine as m on m.n = a.n left join renewed as r on r.n = a.n`;
}
