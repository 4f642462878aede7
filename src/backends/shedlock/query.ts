/** Reads who holds: the whole lock, or all whose names start so. */
import { type LockState, type Snapshot } from "../../contract/backend.ts";
import type { Connection } from "../postgres/connection.ts";
import { toForced, toHolding, toRow } from "./rows.ts";
import type { Statements } from "./statements.ts";

export async function query(connection: Connection, statements: Statements, prefix: string): Promise<Snapshot> {
  return await look(connection, statements, prefix, false);
}

/** It changes nothing. */
export async function inspect(connection: Connection, statements: Statements, name: string): Promise<LockState> {
  return await look(connection, statements, name, true);
}

async function look(
  connection: Connection,
  { query: statement }: Statements,
  name: string,
  whole: boolean,
): Promise<Snapshot> {
  // No lock has such a name, and the server could not read it.
  if (name.includes("\0")) return { held: [], pending: [], forced: [] };
  const { answers } = await connection.read(statement, [name, String(whole)]);
  const rows = answers.flatMap((answer) => toRow(answer) ?? []);
  return {
    held: rows.flatMap((row) => toHolding(row) ?? []),
    pending: [],
    forced: rows.flatMap((row) => toForced(row) ?? []),
  };
}
