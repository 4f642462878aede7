/** Steps of programs that extend leases: close to the lease's own renewals, so that questions for two ttls are on their way at once. */
import type { SeededChance } from "../seeded-random.ts";
import type { Options, ProgramFault, Step } from "./program.ts";

/** A lease of 300 ms or 1 s is renewed after about 100 or 300 ms. */
const MOMENTS = [0, 20, 40, 60, 80, 95, 120, 160, 200, 240, 280, 310] as const;
const SHORT = [300, 1000] as const;
const TTLS = [300, 1000, 3000, 30_000] as const;
const LAGS = [10, 30, 50, 90] as const;

/** A lease that is extended several times. The program does not wait for the answers. */
export function stretch(chance: SeededChance): Step[] {
  const slot = chance.pick([0, 1, 2, 3]);
  const ttl = chance.pick(SHORT);
  const options: Options = chance.happens(0.2) ? { ttl, renew: false } : { ttl };
  const steps: Step[] = [{ do: "acquire", lock: "x", with: options, slot }];
  for (let left = chance.pick([1, 2, 3]); left > 0; left--) {
    const other = chance.happens(0.8) ? { ttl: chance.pick(TTLS) } : {};
    steps.push({ do: "sleep", ms: chance.pick(MOMENTS) }, { do: "extend", slot, ...other, loose: true });
    if (chance.happens(0.15)) steps.push({ do: "block", ms: chance.pick(SHORT) });
    if (chance.happens(0.15)) steps.push({ do: "release", slot, loose: true });
  }
  steps.push({ do: "sleep", ms: chance.pick(MOMENTS) });
  return steps;
}

/** How slow the store is for such a program, and which of its first renewals are slower still. */
export function slowness(chance: SeededChance): { readonly lagMs: number; readonly faults: readonly ProgramFault[] } {
  const faults = [1, 2, 3, 4].flatMap((nth): ProgramFault[] => {
    if (!chance.happens(0.25)) return [];
    const delay = chance.pick([{ replyMs: chance.pick(MOMENTS) }, { requestMs: chance.pick(MOMENTS) }]);
    return [{ client: 0, operation: "renew", nth, fault: { fault: "delay", ...delay } }];
  });
  return { lagMs: chance.pick(LAGS), faults };
}
