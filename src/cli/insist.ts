/** Asks a store again when an answer was lost: every operation is idempotent by its claim's id. */
import { setTimeout as sleep } from "node:timers/promises";

import { LockBackendError, LockError } from "../errors.ts";

const TRIES = 4;
const PAUSE_MS = 150;

/** Rejects as the last try did. */
export async function insist<T>(ask: () => Promise<T>): Promise<T> {
  for (let round = 1; ; round++) {
    try {
      return await ask();
    } catch (error) {
      if (!isUnsure(error) || round === TRIES) throw error;
      await sleep(PAUSE_MS * round);
    }
  }
}

/** True: what was asked may have been done, or may be done yet. Else it was refused, or never sent. */
export function isUnsure(error: unknown): boolean {
  return error instanceof LockBackendError ? !error.fatal : !(error instanceof TypeError || error instanceof LockError);
}
