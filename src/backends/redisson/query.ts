/** Reads without changing anything: one lock, or all whose names start so. */
import type { Forced, Holding, LockState, Snapshot } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { Connection } from "../redis/connection.ts";
import { forcedAt } from "../redis/layouts/forced.ts";
import { toForced } from "../redis/layouts/notes.ts";
import { readOrHidden, scan } from "../redis/layouts/scan.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { inspect as inspectScript } from "./generated/scripts.ts";
import type { Keys, Names } from "./keys.ts";
import { toShown } from "./records.ts";

export async function inspect(connection: Connection, names: Names, name: string): Promise<LockState> {
  const reply = await ask(connection, names.of(name));
  const [ended, ...rest]: unknown[] = Array.isArray(reply) ? reply : [];
  const shown = toShown(name, rest);
  if (shown === undefined) throw errors.unexpected(name);
  return { held: shown.held, pending: [], forced: toForced(name, shown.nowMs, String(ended)) };
}

/** All hashes may be locks: shown are ours, and those that have the form of Redisson's. */
export async function query(connection: Connection, names: Names, start: string): Promise<Snapshot> {
  const held: Holding[] = [];
  const forced: Forced[] = [];
  for (const primary of await connection.primaries()) {
    for await (const keys of scan(primary, names.glob(start), "hash")) {
      const shown = await Promise.all(keys.map((key) => lookAt(connection, names, key)));
      held.push(...shown.flat().filter(({ name }) => name.startsWith(start)));
    }
    for await (const keys of scan(primary, names.notesGlob(), "hash")) {
      const found = await Promise.all(
        keys.map((key) => forcedAt(connection, key, (name) => keysOf(names, name)?.notes === key)),
      );
      forced.push(...found.flat().filter(({ name }) => name.startsWith(start)));
    }
  }
  return { held, pending: [], forced };
}

async function lookAt(connection: Connection, names: Names, key: string): Promise<readonly Holding[]> {
  const name = names.nameOf(key);
  const keys = name === undefined ? undefined : keysOf(names, name);
  if (name === undefined || keys === undefined) return [];
  const [, ...rest] = await readOrHidden(() => ask(connection, keys));
  const shown = toShown(name, rest);
  return shown?.isLikely === true ? shown.held : [];
}

/** A key that is no name of a lock is not one. */
function keysOf(names: Names, name: string): Keys | undefined {
  try {
    return names.of(name);
  } catch (error) {
    if (error instanceof LockBackendError) return undefined;
    throw error;
  }
}

function ask(connection: Connection, { lock, notes, token, start }: Keys): Promise<unknown> {
  return runScript(connection, inspectScript, token === undefined ? [lock, notes] : [lock, notes, token], [start]);
}
