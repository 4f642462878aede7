/** Waiting for ever is right for a lock that is held, and wrong for a store that is not there. This separates the two. */
import { setTimeout as sleep } from "node:timers/promises";

import { ANSWER_MS } from "./ask-store.ts";

const FIRST_LOOK_MS = 500;
const LOOK_AGAIN_MS = 500;

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

/** Resolves when the store has answered once, or when the caller no longer needs to know. */
async function look(ask: () => Promise<unknown>, over: AbortSignal): Promise<void> {
  const endMs = performance.now() + ANSWER_MS;
  const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal: over }).catch(() => {});
  await pause(FIRST_LOOK_MS);
  for (; !over.aborted; await pause(LOOK_AGAIN_MS)) {
    try {
      await ask();
      return;
    } catch (error) {
      if (!over.aborted && performance.now() >= endMs) throw error;
    }
  }
}
