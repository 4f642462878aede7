/** Asks a store again when an answer was lost, until its time is over. Every operation is idempotent by its claim's id. */
import { setTimeout as sleep } from "node:timers/promises";

import { systemClock } from "../contract/clock.ts";
import { LockBackendError, LockError } from "../contract/errors.ts";
import { within } from "../contract/time-limit.ts";
import { ANSWER_MS, silence } from "./ask-store.ts";

const TRIES = 4;
const PAUSE_MS = 150;
/** A question without an answer is asked a second time after this long: its answer, or its connection, may be lost. */
const SILENCE_MS = 2000;

export interface Question {
  /** The backend that is asked. */
  readonly backend: string;
  /** What is unknown without an answer, such as `whether it is held`. */
  readonly unknown: string;
}

/** The first answer to any of the tries. Rejects as the last try did, and after five seconds in any case. */
export async function askUntilAnswered<T>({ backend, unknown }: Question, ask: () => Promise<T>): Promise<T> {
  const endMs = performance.now() + ANSWER_MS;
  const asked: Promise<{ readonly value: T }>[] = [];
  for (let round = 1; ; round++) {
    const last = ask().then((value) => ({ value }));
    asked.push(last);
    const answer = Promise.any(asked).catch(() => never());
    const failure = last.then(never, (error: unknown) => ({ error }));
    const leftMs = Math.max(0, endMs - performance.now());
    const heard = await within(
      systemClock,
      Promise.race([answer, failure]),
      round === TRIES ? leftMs : Math.min(SILENCE_MS, leftMs),
    );
    if (heard !== undefined && "value" in heard) return heard.value;
    const trouble = heard === undefined ? silence(backend, unknown) : heard.error;
    const pauseMs = heard === undefined ? 0 : PAUSE_MS * round;
    if (!isUnsure(trouble) || round === TRIES || performance.now() + pauseMs >= endMs) throw trouble;
    await sleep(pauseMs);
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

/** True: the request may have been executed, or may be executed later. Otherwise it was refused, or never sent. */
export function isUnsure(error: unknown): boolean {
  return error instanceof LockBackendError ? !error.fatal : !(error instanceof TypeError || error instanceof LockError);
}
