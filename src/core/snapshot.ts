/** What query() and inspect() bring: text that others wrote. Loaded by the first of them: holders and waiters need none. */
import { readOutcome } from "../contract/answer.ts";
import type { Forced, Holding, LockState, Meta, Snapshot, Waiting } from "../contract/backend.ts";
import { got } from "../contract/argument-error.ts";
import { LockBackendError, messageOf } from "../contract/errors.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../contract/foreign.ts";

interface Lists<H, W> {
  readonly held: readonly H[];
  readonly pending: readonly W[];
  readonly forced: readonly Forced[];
}

/** The snapshot, cut. Throws where the backend answered something else. */
export function checkedSnapshot(backend: string, method: "query" | "inspect", found: Snapshot): Snapshot {
  let answered: string;
  try {
    answered = got(found);
    if ([found?.held, found?.pending, found?.forced].every((list) => Array.isArray(list)))
      return clippedSnapshot(found);
  } catch (cause) {
    answered = `what cannot be read (${messageOf(cause)})`;
  }
  const message = `The ${backend} backend answered ${method}() with ${answered}, not with the lists \`held\`, \`pending\` and \`forced\`. That is a mistake in the backend.`;
  throw new LockBackendError(backend, "", message, { fatal: true });
}

/** As {@link checkedSnapshot}, of one lock. */
export function checkedState(backend: string, found: LockState): LockState {
  const lists = checkedSnapshot(backend, "inspect", found);
  try {
    const { quarantineMs, outcome } = found;
    const kept = outcome === undefined ? undefined : readOutcome(outcome);
    if (kept !== "mistaken")
      return { ...lists, quarantineMs: typeof quarantineMs === "number" ? quarantineMs : undefined, outcome: kept };
  } catch {
    // It is no object, or has a getter that throws: it cannot be read, either.
  }
  const message = `The ${backend} backend answered inspect() with an outcome that cannot be read. That is a mistake in the backend.`;
  throw new LockBackendError(backend, "", message, { fatal: true });
}

/** What a store says, cut to the lengths that Holdfast itself allows. */
export function clippedSnapshot<H extends Holding, W extends Waiting>(found: Lists<H, W>): Lists<H, W> {
  const { held, pending, forced } = found;
  return { held: clippedAll(held), pending: clippedAll(pending), forced: forced.map(clippedForced) };
}

function clippedAll<T extends { readonly holder: string; readonly meta: Meta }>(all: readonly T[]): readonly T[] {
  const fits = ({ holder, meta }: T): boolean => holder.length <= HOLDER_MAX && sizeOf(meta) <= META_BYTES_MAX;
  if (all.every(fits)) return all;
  return all.map((one) =>
    fits(one) ? one : { ...one, holder: clipped(one.holder, HOLDER_MAX), meta: clippedMeta(one.meta) },
  );
}

function clippedForced(one: Forced): Forced {
  return { ...one, by: clipped(one.by, HOLDER_MAX), reason: clipped(one.reason, REASON_MAX) };
}

/** Counts no more than it must: a meta of a megabyte is as much too large as one of a gigabyte. */
function sizeOf(meta: Meta): number {
  let size = 2;
  for (const field in meta) {
    size += field.length + (meta[field]?.length ?? 0) + 6;
    if (size > META_BYTES_MAX) return size;
  }
  return size;
}

function clippedMeta(meta: Meta): Meta {
  const kept: Record<string, string> = {};
  let left = META_BYTES_MAX;
  for (const [field, text] of Object.entries(meta)) {
    left -= field.length + 6;
    if (left <= 0) break;
    kept[field] = clipped(text, left);
    left -= kept[field].length;
  }
  return kept;
}
