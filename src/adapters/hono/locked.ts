/** Hono: a request is handled under the lock that it names. */
import type { Context, MiddlewareHandler, Next } from "hono";
import type { Lease, Locks } from "../../core/api.ts";
import { withStatus } from "../http/answer.ts";
import {
  checkLocked,
  type CheckedLocked,
  isHeld,
  type LockedOptions,
  runLocked,
  type Turn,
} from "../http/lock-request.ts";
import {
  joined,
  type Leased,
  readAhead,
  replaceResponse,
  responseOf,
  responseWith,
  streamOf,
  withResponse,
} from "./response.ts";

/**
 * Takes the lock that `key` names for a request, and releases it when the handler has settled, before its response is sent; a stream's lock, when
 * the stream has ended or the client has left it. A busy lock is answered with 409, or 423, and `Retry-After`. A success after the lock was lost is sent as 503.
 */
export function locked(
  locks: Locks,
  key: (c: Context) => string | Promise<string>,
  options: LockedOptions = {},
): MiddlewareHandler<Leased> {
  const checked = checkLocked(locks, key, options);
  return async (c, next) => {
    try {
      return await pass(locks, await key(c), checked, c, next);
    } catch (error) {
      throw withResponse(withStatus(error));
    }
  };
}

async function pass(
  locks: Locks,
  name: string,
  options: CheckedLocked,
  c: Context<Leased>,
  next: Next,
): Promise<Response | undefined> {
  const before = new Headers(c.res.headers);
  let streams = (): void => undefined;
  const isStreaming = new Promise<"streams">((resolve) => void (streams = () => resolve("streams")));
  const turn: Promise<Turn<void>> = runLocked(locks, name, options, c.req.raw.signal, async (lease) => {
    c.set("lease", lease);
    await next();
    await untilSent(c, lease, () => turn, streams);
  });
  const first = await Promise.race([turn, isStreaming]);
  if (first === "streams") return undefined;
  if (first.ran) return undefined;
  if (!first.lost) return responseOf(first.answer, before);
  if (c.res.status < 400) replaceResponse(c, responseOf(first.answer, before));
  return undefined;
}

/** Resolves when all of the response is there, or, for a stream, when all of it was read. */
async function untilSent(c: Context, lease: Lease, turn: () => Promise<unknown>, streams: () => void): Promise<void> {
  const { res } = c;
  const ahead = await readAhead(c);
  if (ahead === undefined) return;
  const { rest, chunks } = ahead;
  if (rest === undefined) return replaceResponse(c, responseWith(res, joined(chunks)));
  await new Promise<void>((resolve) => {
    const over = async (): Promise<boolean> => {
      const wasHeld = isHeld(lease);
      resolve();
      await turn().catch(() => undefined);
      return wasHeld;
    };
    replaceResponse(c, responseWith(res, streamOf({ chunks, rest }, over, c.req.raw.signal)));
    streams();
  });
}
