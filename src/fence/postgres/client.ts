/** The part of `pg` that the guard uses, by structure: a client, a pool, or anything that looks like them. */
import { ArgumentError } from "../../contract/argument-error.ts";

export interface Queryable {
  query(text: string, values?: unknown[]): Promise<QueryResult>;
}

export interface QueryResult {
  // oxlint-disable-next-line typescript/no-explicit-any -- pg types its rows so; everything read is checked
  readonly rows: any[];
  readonly rowCount: number | null;
  /** The command tag, such as `COMMIT`. */
  readonly command?: string;
}

export interface PoolClient extends Queryable {
  release(error?: Error | boolean): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
  off?(event: "error", listener: (error: Error) => void): unknown;
}

export interface Pool<C extends PoolClient = PoolClient> {
  connect(): Promise<C>;
}

/** Quotes an identifier. A dotted one is quoted part by part: `shop.account` is `"shop"."account"`. */
export function identifier(name: string, option: string): string {
  const parts = name.split(".");
  if (parts.some((part) => part === "" || part.includes("\0"))) {
    throw new ArgumentError(`Expected \`${option}\` to be the name of a table or column, got ${JSON.stringify(name)}`);
  }
  return parts.map((part) => `"${part.replaceAll('"', '""')}"`).join(".");
}
