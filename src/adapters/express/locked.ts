/** Express: a request is handled under the lock that it names. */
import type { Locks } from "../../core/api.ts";
import { withStatus } from "../http/answer.ts";
import { whenGone } from "../http/connection.ts";
import { checkLocked, type CheckedLocked, type LockedOptions, runLocked, takeAway } from "../http/lock-request.ts";
import { type Ended, holdResponse } from "./held-response.ts";
import { answerNow, type LeasedRequest, type Middleware } from "./request.ts";

/**
 * Takes the lock that `key` names for a request, and releases it when the handler has ended the response, just before the client has it. A busy
 * lock is answered with 409, or 423, and `Retry-After`. Where the connection is closed first, the handler keeps the lock until it ends the
 * response all the same, or for `grace`. A success after the lock was lost is sent as 503.
 */
export function locked<R extends LeasedRequest>(
  locks: Locks,
  key: (request: R) => string | Promise<string>,
  options: LockedOptions = {},
): Middleware<R> {
  const checked = checkLocked(locks, key, options);
  // `next` and the response report every outcome, so the promise is not needed.
  return (request, response, next) => void pass(locks, key, checked, [request, response, next]);
}

async function pass<R extends LeasedRequest>(
  locks: Locks,
  key: (request: R) => string | Promise<string>,
  options: CheckedLocked,
  [request, response, next]: Parameters<Middleware<R>>,
): Promise<void> {
  const gone = whenGone(response);
  let ended: Ended | undefined;
  let delivered = false;
  try {
    const turn = await runLocked(locks, await key(request), options, gone.signal, async (lease) => {
      gone.off();
      request.lease = lease;
      const held = holdResponse(response, options.graceMs);
      next();
      ended = await held;
      if (ended.how === "abandoned") await takeAway(locks, lease);
    });
    delivered = true;
    const isSuccess = ended !== undefined && ended.status < 400;
    if (turn.ran || (turn.lost && !isSuccess)) ended?.send();
    else if (ended === undefined) answerNow(response, turn.answer);
    else ended.replace(turn.answer);
  } catch (error) {
    // The handler's response is there: what the store says after it is no reason to withhold it.
    if (ended === undefined) next(withStatus(error));
    else if (delivered) response.destroy();
    else ended.send();
  } finally {
    gone.off();
  }
}
