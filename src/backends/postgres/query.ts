/** Reads who holds and who waits: one statement with one snapshot of the tables, so that it is one instant. */
import type { Forced, Holding, KeptOutcome, LockState, Snapshot, Waiting } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { CALL_INSPECT, CALL_LOOK } from "./generated/sql.ts";
import type { Settings } from "./options.ts";
import { toBytes, toCount, toFields, toForced, toHolding, toName, toOutcome, toWaiting } from "./records.ts";

export async function query(connection: Connection, prefix: string): Promise<Snapshot> {
  const { answers } = await connection.read(CALL_LOOK, [toBytes(prefix), after(prefix)]);
  const { held, pending, forced } = toState(answers);
  return { held, pending, forced };
}

/** It changes nothing. */
export async function inspect(connection: Connection, { quarantineMs }: Settings, name: string): Promise<LockState> {
  const { answers } = await connection.read(CALL_INSPECT, [toBytes(name), String(quarantineMs)]);
  return toState(answers);
}

function toState(answers: readonly (string | null)[]): LockState {
  const held: Holding[] = [];
  const pending: Waiting[] = [];
  const forced: Forced[] = [];
  let outcome: KeptOutcome | undefined;
  let quarantineMs: number | undefined;
  for (const answer of answers) {
    const fields = answer === null ? undefined : toFields(answer);
    const name = toName(fields?.["lock"]);
    if (fields === undefined || name === undefined) continue;
    if (fields["kind"] === "held") add(held, toHolding(name, fields));
    else if (fields["kind"] === "waiting") add(pending, toWaiting(name, fields));
    else if (fields["kind"] === "forced") add(forced, toForced(name, fields));
    else if (fields["kind"] === "outcome") outcome = toOutcome(fields);
    else quarantineMs = toCount(fields["left"]);
  }
  held.sort((a, b) => compare(a.name, b.name) || compare(a.fence, b.fence));
  pending.sort((a, b) => compare(a.name, b.name) || a.position - b.position);
  return { held, pending, forced, ...(outcome && { outcome }), ...(quarantineMs !== undefined && { quarantineMs }) };
}

function add<T>(list: T[], item: T | undefined): void {
  if (item !== undefined) list.push(item);
}

function compare<T extends string | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The first name in the order of bytes that does not start with the prefix. No byte of UTF-8 is the greatest there is. */
function after(prefix: string): string | null {
  const bytes = Buffer.from(prefix, "utf8");
  if (bytes.length === 0) return null;
  bytes[bytes.length - 1]!++;
  return `\\x${bytes.toString("hex")}`;
}
