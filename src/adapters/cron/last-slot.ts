/**
 * The last slot of a job that was done, kept in the store: how far back slots can have been missed. It may be behind, never ahead: whether
 * a slot was done is kept for each slot by itself.
 *
 * It has two places, because a kept value cannot be replaced in one step: the older one is removed and written again, and the other one is
 * there meanwhile.
 */
import { OUTCOME_KEEP_MAX_MS } from "../../contract/claim.ts";
import { systemClock } from "../../contract/clock.ts";
import type { Locks, OnceCodec, OutcomeState } from "../../core/api.ts";
import { pause } from "../../core/pause.ts";
import { lastName } from "./names.ts";

const [PAUSE_MIN_MS, PAUSE_MAX_MS] = [100, 5000];

const CODEC: OnceCodec<number> = {
  encode: String,
  decode: (text) => (/^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN),
};

interface Place {
  readonly name: string;
  readonly slotMs: number;
  readonly kept: OutcomeState<number>;
}

async function places(locks: Locks, job: string): Promise<readonly [newer: Place, older: Place]> {
  const read = async (number: number): Promise<Place> => {
    const name = lastName(job, number);
    const kept = await locks.outcome(name, { codec: CODEC });
    const slotMs = kept.state === "done" && !Number.isNaN(kept.value) ? kept.value : -Infinity;
    return { name, slotMs, kept };
  };
  const [zero, one] = await Promise.all([read(0), read(1)]);
  return one.slotMs > zero.slotMs ? [one, zero] : [zero, one];
}

/** In milliseconds since 1970. `undefined`: the store knows of none. */
export async function lastSlot(locks: Locks, job: string): Promise<number | undefined> {
  const [{ slotMs }] = await places(locks, job);
  return slotMs === -Infinity ? undefined : slotMs;
}

/** The same. While the store cannot be asked, it is asked again: as long as a slot itself would wait for it. */
export async function awaitLastSlot(
  locks: Locks,
  job: string,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const untilMs = performance.now() + waitMs;
  for (let pauseMs = PAUSE_MIN_MS; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS)) {
    if (signal?.aborted === true) throw signal.reason;
    try {
      return await lastSlot(locks, job);
    } catch (error) {
      const { code, fatal } = (error ?? {}) as { readonly code?: unknown; readonly fatal?: unknown };
      const restMs = untilMs - performance.now();
      if (code !== "ERR_LOCK_BACKEND" || fatal === true || restMs <= 0) throw error;
      await pause(systemClock, Math.min(pauseMs, restMs), [signal]);
    }
  }
}

/** Never rejects: what is not written here is found slot by slot. */
export async function keepLastSlot(locks: Locks, job: string, slot: Date): Promise<void> {
  try {
    const [newer, { name, kept }] = await places(locks, job);
    if (newer.slotMs >= slot.getTime()) return;
    if (kept.state === "done" || kept.state === "failed") await locks.forget(name, { fence: kept.fence });
    const options = { keep: OUTCOME_KEEP_MAX_MS, wait: 0, codec: CODEC, ttl: 5000 };
    await locks.once(name, options, () => slot.getTime());
  } catch {
    // The store could not be asked, or another process writes there now.
  }
}
