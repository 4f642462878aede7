/** The guard for one row: the row itself carries the fence, and the update is conditional on it. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { checkFenced, type Fenced, storedFence } from "../fenced.ts";
import { reject } from "../rejected.ts";
import { rejectedBy } from "./check.ts";
import { identifier, type Queryable } from "./client.ts";

export interface FencedUpdate {
  /** The table, with its schema if need be: `account`, `shop.account`. Names are taken literally, case included. */
  readonly table: string;
  /** Which row, by the values of its columns: name one row, by its primary key. */
  readonly where: Readonly<Record<string, unknown>>;
  /** The new values. */
  readonly set: Readonly<Record<string, unknown>>;
  /** The `bigint` column that keeps the row's greatest fence; null counts as none yet. @default "fence" */
  readonly column?: string | undefined;
}

const DEFAULTS = { column: "fence" } as const satisfies Partial<FencedUpdate>;

/** The row may appear between the update that matched nothing and the query why: then the update is retried. */
const TRIES = 5;

/**
 * Updates the row unless a later lease has written it, in one statement. Resolves to the number of rows: 0 when there is none.
 * Throws `FenceRejectedError`, with nothing written, when the row's fence is greater.
 */
export async function updateFenced(client: Queryable, offered: Fenced, update: FencedUpdate): Promise<number> {
  const fenced = checkFenced(offered);
  const { change, inspect } = statements(fenced.fence, update);
  for (let tries = 0; tries < TRIES; tries++) {
    const changed = await client.query(change.text, [...change.values]).catch((error: unknown) => {
      throw rejectedBy(error, [fenced]) ?? error;
    });
    if (changed.rowCount !== 0 && changed.rowCount !== null) return changed.rowCount;
    const { rows } = await client.query(inspect.text, [...inspect.values]);
    if (rows.length === 0) return 0;
    const current = rows[0]?.fence === null ? 0n : storedFence(rows[0]?.fence, `column of ${update.table}`);
    if (current > fenced.fence) throw reject("postgres", fenced, current);
  }
  throw new Error(`The row of ${update.table} kept changing: nothing was written. Try again`);
}

interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

function statements(fence: bigint, update: FencedUpdate): { change: Statement; inspect: Statement } {
  const column = update.column ?? DEFAULTS.column;
  const table = identifier(update.table, "table");
  const quoted = identifier(column, "column");
  if (Object.hasOwn(update.set, column)) {
    throw new ArgumentError(`Expected \`set\` not to name the column ${JSON.stringify(column)}: the guard writes it`);
  }
  if (Object.keys(update.where).length === 0) {
    throw new ArgumentError("Expected `where` to name a row by at least one column");
  }
  const inspect = new Builder();
  const inspectWhere = inspect.where(update.where);
  const change = new Builder();
  const offered = `${change.value(fence.toString(), column)}::bigint`;
  const set = Object.entries(update.set).map(
    ([name, value]) => `${identifier(name, "set")} = ${change.value(value, name)}`,
  );
  const where = change.where(update.where);
  return {
    change: {
      text: `update ${table} set ${[...set, `${quoted} = ${offered}`].join(", ")} where ${where} and (${quoted} is null or ${quoted} <= ${offered})`,
      values: change.values,
    },
    inspect: {
      text: `select ${quoted}::text as fence from ${table} where ${inspectWhere} order by ${quoted} desc nulls last limit 1`,
      values: inspect.values,
    },
  };
}

/** Collects parameters while the text is put together. */
class Builder {
  readonly values: unknown[] = [];

  value(value: unknown, name: string): string {
    if (value === undefined)
      throw new ArgumentError(`Expected a value for column ${JSON.stringify(name)}, got undefined`);
    return `$${this.values.push(value)}`;
  }

  where(columns: Readonly<Record<string, unknown>>): string {
    return Object.entries(columns)
      .map(([name, value]) => {
        const column = identifier(name, "where");
        return value === null ? `${column} is null` : `${column} = ${this.value(value, name)}`;
      })
      .join(" and ");
  }
}
