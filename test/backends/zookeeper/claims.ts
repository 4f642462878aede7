/** Claims, and waiting for conditions, for the ZooKeeper tests. */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Backend, Claim, Granted, Refused } from "../../../src/contract/backend.ts";

export function claim(name: string, change: Partial<Claim> = {}): Claim {
  return {
    id: randomBytes(16).toString("base64url"),
    name,
    mode: "exclusive",
    limit: 1,
    ttlMs: 30_000,
    lockDelayMs: 0,
    minHoldMs: 0,
    holder: "test:1",
    meta: {},
    queues: true,
    ...change,
  };
}

export async function granted(backend: Backend, one: Claim): Promise<Granted> {
  const answer = await backend.attempt(one);
  expect(answer).toMatchObject({ granted: true });
  return answer as Granted;
}

export async function refused(backend: Backend, one: Claim): Promise<Refused> {
  const answer = await backend.attempt(one);
  expect(answer).toMatchObject({ granted: false });
  return answer as Refused;
}

/** Waits as the core does, through lost answers too. */
export async function acquire(backend: Backend, one: Claim, patienceMs?: number): Promise<Granted> {
  const attempt = async (): Promise<Granted | undefined> => {
    const answer = await backend.attempt(one).catch(() => undefined);
    if (answer === undefined) return undefined;
    if (answer.granted) return answer;
    return backend.watch?.(one, AbortSignal.timeout(2000)).catch(() => undefined);
  };
  return eventually("the lease is granted", attempt, patienceMs);
}

/** Calls `check` until it returns something. */
export async function eventually<T>(
  what: string,
  check: () => Promise<T | undefined> | T | undefined,
  patienceMs = 20_000,
): Promise<T> {
  const deadlineMs = performance.now() + patienceMs;
  for (;;) {
    const found = await check();
    if (found !== undefined) return found;
    if (performance.now() > deadlineMs) throw new Error(`did not happen in ${patienceMs} ms: ${what}`);
    await sleep(10);
  }
}
