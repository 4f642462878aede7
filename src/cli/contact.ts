/** Waiting for ever is right for a lock that is held, and wrong for a store that is not there: the two told apart. */
import { setTimeout as sleep } from "node:timers/promises";

import { LockBackendError } from "../errors.ts";

const FIRST_LOOK_MS = 500;
const LOOK_AGAIN_MS = 500;
const GIVE_UP_MS = 5000;

/**
 * Does `wait`, and while it lasts looks whether the store answers at all. If it never has after five seconds, the waiting
 * is stopped and the store's error is thrown. Once it has answered, the waiting rides out whatever comes.
 */
export async function whileStoreAnswers<T>(
  ask: () => Promise<unknown>,
  stop: AbortSignal,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const silent = new AbortController();
  const over = new AbortController();
  void look(ask, over.signal).catch((error: unknown) => silent.abort(error));
  try {
    return await wait(AbortSignal.any([stop, silent.signal]));
  } catch (error) {
    throw silent.signal.aborted && !stop.aborted ? silent.signal.reason : error;
  } finally {
    over.abort();
  }
}

/** Resolves when the store has answered once, or nobody wants to know any more. */
async function look(ask: () => Promise<unknown>, over: AbortSignal): Promise<void> {
  const endMs = performance.now() + GIVE_UP_MS;
  const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal: over }).catch(() => {});
  await pause(FIRST_LOOK_MS);
  for (; !over.aborted; await pause(LOOK_AGAIN_MS)) {
    try {
      await Promise.race([ask(), late(endMs - performance.now(), over)]);
      return;
    } catch (error) {
      if (!over.aborted && performance.now() >= endMs) throw error;
    }
  }
}

async function late(ms: number, over: AbortSignal): Promise<never> {
  await sleep(Math.max(0, ms), undefined, { signal: over });
  throw new LockBackendError("", "", `The store has not answered for ${GIVE_UP_MS / 1000} seconds.`);
}
