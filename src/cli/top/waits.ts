/** Who waited for whom since `top` began, for scripts. */
import type { WaitRow, WaitSamples } from "../../core/wait-samples.ts";
import { hostAndPid } from "../../core/read-snapshot.ts";

/** What a script gets. */
export function waitsJson({ looks }: WaitSamples, rows: readonly WaitRow[], forMs: number): object {
  return {
    forMs: Math.round(forMs),
    looks,
    locks: rows.map(({ name, waiting, waitMs, holders, otherMs, unknownMs }) => ({
      name,
      waiting,
      waitMs: Math.round(waitMs),
      holders: holders.map(({ holder, reason, waitMs: partMs }) => ({
        holder,
        ...hostAndPid(holder),
        reason,
        waitMs: Math.round(partMs),
      })),
      otherMs: Math.round(otherMs),
      unknownMs: Math.round(unknownMs),
    })),
  };
}
