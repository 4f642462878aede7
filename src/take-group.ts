/** Several locks: all or nothing, always in the same order, so that two who want the same locks never wait for each other. */
import type { Clock } from "./clock.ts";
import { GroupLease } from "./group.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "./on-abort.ts";
import type { Spec } from "./spec.ts";

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
  for (;;) {
    const parts: HeldLease[] = [];
    const lost = new AbortController();
    try {
      for (const name of sorted) {
        const part = await take(name, withSignal(spec, parts.length === 0 ? undefined : lost.signal), waitMs());
        if (part === null) {
          await releaseAll(parts);
          return null;
        }
        // Whatever is lost now ends the waiting for the rest.
        stopWhenLost(part, lost);
        parts.push(part);
      }
    } catch (error) {
      await releaseAll(parts);
      if (!lost.signal.aborted || spec.signal?.aborted === true || clock.now() >= deadlineMs) throw error;
      continue;
    }
    // Looked at by the clock, all in one step with handing them out: a timer may be late.
    const gone = parts.find((part) => part.standing() === "lost");
    if (gone === undefined) return parts.length === 1 ? parts[0]! : new GroupLease(parts);
    await releaseAll(parts);
    if (clock.now() >= deadlineMs) throw gone.lost!;
  }
}

function withSignal(spec: Spec, lost: AbortSignal | undefined): Spec {
  if (lost === undefined) return spec;
  return { ...spec, signal: spec.signal === undefined ? lost : AbortSignal.any([spec.signal, lost]) };
}

function stopWhenLost(part: HeldLease, lost: AbortController): void {
  if (part.lost !== undefined) lost.abort(part.lost);
  else onAbort(part.signal, () => part.lost !== undefined && lost.abort(part.lost));
}

async function releaseAll(parts: readonly HeldLease[]): Promise<void> {
  await Promise.all(parts.map((part) => part.release()));
}
