/** ShedLock's table: what it must look like so that two languages read the same times from it, and how it is made. */
import { LockBackendError } from "../../contract/errors.ts";
import type { Connection } from "../postgres/connection.ts";

/** As ShedLock's documentation makes it. */
export const SHEDLOCK_TABLE: string = tableText("shedlock");

export function tableText(table: string): string {
  return `create table if not exists ${table} (
  name varchar(64) primary key,
  lock_until timestamp not null,
  locked_at timestamp not null,
  locked_by varchar(255) not null
);
`;
}

/** The longest that `locked_by` must hold: a holder, a claim's id, and marks between them. */
const LOCKED_BY_MAX = 255;

export interface Table {
  /** How many characters a name may have. */
  readonly nameMax: number;
}

interface Column {
  readonly type: string;
  /** Of texts: how many characters. Of times: how many digits after the second. -1: no limit. */
  readonly limit: number;
  readonly key: boolean;
  /** False: a crash of the server empties the table, or no other process sees it. */
  readonly logged: boolean;
}

const COLUMNS = `select pg_catalog.json_object_agg(a.attname, pg_catalog.json_build_object(
    'type', pg_catalog.format_type(a.atttypid, null),
    'limit', case when a.atttypmod < 0 then -1 when a.atttypid = 'pg_catalog.varchar'::pg_catalog.regtype then a.atttypmod - 4 else a.atttypmod end,
    'logged', (select c.relpersistence = 'p' from pg_catalog.pg_class as c where c.oid = a.attrelid),
    'key', exists (
      select from pg_catalog.pg_index as i
      where i.indrelid = a.attrelid and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null and i.indnkeyatts = 1 and i.indkey[0] = a.attnum)))::text as answer
  from pg_catalog.pg_attribute as a where a.attrelid = pg_catalog.to_regclass($1::text) and a.attnum > 0 and not a.attisdropped`;

const TIME = "timestamp without time zone";

/** Rejects with what to do if the table is missing, or could not be read in the same way by all who use it. */
export async function readTable(connection: Connection, table: string): Promise<Table> {
  const { answers } = await connection.read(COLUMNS, [table]);
  const columns = JSON.parse(answers[0] ?? "{}") as Readonly<Record<string, Column>>;
  const { name, lock_until: until, locked_at: at, locked_by: by } = columns;
  if (name === undefined || until === undefined || at === undefined || by === undefined) {
    const what = Object.keys(columns).length === 0 ? "is missing" : "has not the columns of ShedLock's";
    throw wrong(`the table ${table} ${what}. Create it as ShedLock's documentation says, or say \`migrate: true\``);
  }
  for (const [column, { type, limit }] of [
    ["lock_until", until],
    ["locked_at", at],
  ] as const) {
    if (type === TIME && (limit < 0 || limit === 6)) continue;
    const text = `${column} of ${table} must be "timestamp", because ShedLock writes times without a zone, in UTC, and fewer digits would end leases early`;
    throw wrong(`${text}. It is "${type}${limit < 0 ? "" : `(${limit})`}": alter it while no job runs`);
  }
  if (!name.key)
    throw wrong(`name of ${table} is not its key, so that two rows could be one lock. Make it the primary key`);
  if (!name.logged) {
    throw wrong(
      `${table} is unlogged or temporary, so a crash of the server would empty it and leases would be held twice. Run: alter table ${table} set logged`,
    );
  }
  if (!isText(name) || !isText(by) || (by.limit >= 0 && by.limit < LOCKED_BY_MAX)) {
    throw wrong(`name and locked_by of ${table} must be texts, and locked_by of ${LOCKED_BY_MAX} characters or more`);
  }
  return { nameMax: name.limit < 0 ? Infinity : name.limit };
}

function isText({ type }: Column): boolean {
  return type === "character varying" || type === "text";
}

function wrong(text: string): LockBackendError {
  return new LockBackendError("shedlock", "", `ShedLock's table: ${text}.`, { fatal: true });
}
