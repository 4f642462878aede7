/**
 * The end of a soak: its clients close their locks, at a store that is whole again. To reject is right for a close() that the store does not answer,
 * and on a busy machine it may not; so the lab asks the same store all the while, and judges by the answers that it gets itself.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Closed } from "../clients/orders.ts";
import type { Observer } from "../stage.ts";

/** A fifth of what close() waits for an answer: a store that answers all questions of the lab in less has answered close(), too. */
const PROMPT_MS = 1000;
const PAUSE_MS = 20;

interface End {
  /** What is left in the processes, and closes that failed for no reason. */
  readonly findings: readonly string[];
  /** Closes that failed for a reason. */
  readonly unconfirmed: number;
}

export async function judgeEnd(
  observers: readonly Pick<Observer, "look">[],
  stop: () => Promise<readonly Closed[]>,
  nowMs: () => number = machineMs,
): Promise<End> {
  let [slowestMs, isOver] = [0, false];
  const asking = observers.map(async (observer) => {
    while (!isOver) {
      const askedMs = nowMs();
      const answered = await observer.look("soak:").then(
        () => true,
        () => false,
      );
      slowestMs = Math.max(slowestMs, answered ? nowMs() - askedMs : Infinity);
      await sleep(PAUSE_MS);
    }
  });
  try {
    const closed = await stop();
    isOver = true;
    await Promise.all(asking);
    const unconfirmed = closed.flatMap((one) => one.unconfirmed ?? []);
    const left = closed.flatMap((one) => one.left);
    if (slowestMs > PROMPT_MS) return { findings: left, unconfirmed: unconfirmed.length };
    const why = `though the store answered each question of the lab within ${Math.ceil(slowestMs)} ms`;
    return { findings: [...left, ...unconfirmed.map((text) => `close() failed, ${why}: ${text}`)], unconfirmed: 0 };
  } finally {
    isOver = true;
  }
}
