/** Claims, and waiting for conditions, for the etcd tests. */
import type { Backend, Claim, Granted } from "../../../src/contract/backend.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";

export { granted, refused } from "../../../src/testing/attempts.ts";
export { eventually };

export function claim(name: string, change: Partial<Claim> = {}): Claim {
  return newClaim({ name, ttlMs: 30_000, ...change });
}

/** Waits as the core does, through lost answers too. */
export async function acquire(backend: Backend, one: Claim, patienceMs?: number): Promise<Granted> {
  const attempt = async (): Promise<Granted | undefined> => {
    const answer = await backend.attempt(one).catch(() => undefined);
    if (answer === undefined) return undefined;
    if (answer.granted) return answer;
    return backend.watch?.(one, AbortSignal.timeout(2000)).catch(() => undefined);
  };
  return eventually("the lease is granted", attempt, { patienceMs });
}

/** Renews until the store has a certain answer. */
export async function renewed(backend: Backend, one: Claim): Promise<boolean> {
  return eventually("a certain answer to a renewal", async () => {
    const [renewal] = await backend.renew([one]).catch(() => []);
    return renewal === undefined || renewal.held === "unknown" ? undefined : renewal.held;
  });
}
