/** Reads without changing anything: one lock, or all whose names start so. */
import type { Forced, Holding, LockState, Snapshot } from "../../contract/backend.ts";
import type { Connection } from "../redis/connection.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { inspect as inspectScript, look } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { toShown } from "./records.ts";
import { forcedAt } from "../redis/layouts/forced.ts";
import { toForced } from "../redis/layouts/notes.ts";
import { readOrHidden, scan } from "../redis/layouts/scan.ts";

export async function inspect(connection: Connection, names: Names, name: string): Promise<LockState> {
  const { lock, notes } = names.of(name);
  const reply = await runScript(connection, inspectScript, [lock, notes], []);
  const [now, left, text, ended]: unknown[] = Array.isArray(reply) ? reply : [];
  if (typeof now !== "number" || typeof left !== "number" || typeof text !== "string") throw errors.unexpected(name);
  const shown = toShown(name, now, left, text);
  return { held: shown === undefined ? [] : [shown.holding], pending: [], forced: toForced(name, now, String(ended)) };
}

/** All keys may be locks: shown are ours, and those with a value like those that other lock libraries write. */
export async function query(connection: Connection, names: Names, start: string): Promise<Snapshot> {
  const held: Holding[] = [];
  const forced: Forced[] = [];
  for (const primary of await connection.primaries()) {
    for await (const keys of scan(primary, names.glob(start), "string")) {
      const shown = await Promise.all(keys.map((key) => lookAt(connection, names, key)));
      held.push(...shown.flatMap((one) => one ?? []).filter(({ name }) => name.startsWith(start)));
    }
    for await (const keys of scan(primary, names.notesGlob(), "hash")) {
      const found = await Promise.all(
        keys.map((key) => forcedAt(connection, names.bare(key), (name) => names.full(names.of(name).notes) === key)),
      );
      forced.push(...found.flat().filter(({ name }) => name.startsWith(start)));
    }
  }
  return { held, pending: [], forced };
}

async function lookAt(connection: Connection, names: Names, key: string): Promise<Holding | undefined> {
  const name = names.nameOf(key);
  if (name === undefined) return undefined;
  const [now, left, text] = await readOrHidden(() => runScript(connection, look, [names.bare(key)], []));
  if (typeof now !== "number" || typeof left !== "number" || typeof text !== "string") return undefined;
  const shown = toShown(name, now, left, text);
  return shown?.isLikely === true ? shown.holding : undefined;
}
