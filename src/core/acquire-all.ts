/** Several locks: all or nothing, always in the same order, so that two who want the same locks never wait for each other. */
import type { Clock } from "../contract/clock.ts";
import { GroupLease } from "./multi-lease.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { Spec } from "./options.ts";

type Take = (name: string, spec: Spec, waitMs: number) => Promise<HeldLease | null>;

/** Takes them one after the other. Where one is lost while the rest is waited for, it begins again, as long as there is time. */
export async function takeGroup(
  clock: Clock,
  names: readonly string[],
  spec: Spec,
  take: Take,
): Promise<HeldLease | GroupLease | null> {
  const sorted = [...new Set(names)].toSorted();
  const deadlineMs = clock.now() + spec.waitMs;
  const waitMs = (): number => (spec.waitMs === Infinity ? Infinity : Math.max(1, deadlineMs - clock.now()));
  const { signal } = spec;
  for (;;) {
    const parts: HeldLease[] = [];
    // Ends the waiting for the rest: one of the parts is lost, or the caller's own signal aborts.
    const end = new AbortController();
    const unlisten =
      signal === undefined || signal.aborted ? undefined : onAbort(signal, () => end.abort(signal.reason));
    try {
      for (const name of sorted) {
        const part = await take(name, parts.length === 0 ? spec : { ...spec, signal: end.signal }, waitMs());
        if (part === null) {
          await releaseAll(parts);
          return null;
        }
        parts.push(part);
        // Not its signal, which may have been aborted for another reason: the work around it was asked to stop.
        part.onLost = () => end.abort(part.lost);
        if (part.lost !== undefined) end.abort(part.lost);
      }
    } catch (error) {
      const isLost = end.signal.aborted;
      await releaseAll(parts);
      if (!isLost || signal?.aborted === true || clock.now() >= deadlineMs) throw error;
      continue;
    } finally {
      unlisten?.();
      for (const part of parts) part.onLost = undefined;
    }
    // Looked at by the clock, all in one step with handing them out: a timer may be late.
    const gone = parts.find((part) => part.standing() === "lost");
    if (gone === undefined) return parts.length === 1 ? parts[0]! : new GroupLease(parts);
    await releaseAll(parts);
    if (clock.now() >= deadlineMs) throw gone.lost!;
  }
}

async function releaseAll(parts: readonly HeldLease[]): Promise<void> {
  await Promise.all(parts.map((part) => part.release()));
}
