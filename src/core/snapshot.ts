/** What query() brings: text that others wrote. Loaded by the first query(): holders and waiters need none. */
import type { Forced, Meta, Snapshot } from "../contract/backend.ts";
import { got } from "../contract/argument-error.ts";
import { LockBackendError, messageOf } from "../contract/errors.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../contract/foreign.ts";

/** The snapshot, cut. Throws where the backend answered something else. */
export function checkedSnapshot(backend: string, found: Snapshot): Snapshot {
  let answered: string;
  try {
    answered = got(found);
    if ([found?.held, found?.pending, found?.forced].every((list) => Array.isArray(list)))
      return clippedSnapshot(found);
  } catch (cause) {
    answered = `what cannot be read (${messageOf(cause)})`;
  }
  const message = `The ${backend} backend answered query() with ${answered}, not with the lists \`held\`, \`pending\` and \`forced\`. That is a mistake in the backend.`;
  throw new LockBackendError(backend, "", message, { fatal: true });
}

/** What a store says, cut to the lengths that Holdfast itself allows. */
export function clippedSnapshot({ held, pending, forced }: Snapshot): Snapshot {
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
