/** Fastify: the requests of a context are handled under the locks that they name. */
import { pipeline, Readable, Transform } from "node:stream";
import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from "fastify";
import type { Lease, Locks } from "../../core/api.ts";
import { type Answer, lost, withStatus } from "../http/answer.ts";
import { whenGone } from "../http/connection.ts";
import {
  checkLocked,
  type CheckedLocked,
  isHeld,
  type LockedOptions,
  runLocked,
  takeAway,
} from "../http/lock-request.ts";
import { type Call, isHijacked, isStream, pluginOf, setAnswer, whenOver, whenSent } from "./plugin.ts";

/** What is known of a request while its handler works. */
interface Working {
  readonly lease: Lease;
  readonly before: Readonly<Record<string, unknown>>;
  /**
   * Whether the work ends with what is sent. True of a handler that returned nothing, and of a stream that was returned. Otherwise it ends when
   * the handler's promise settles, and what the handler sends before that is not held back: it may be what the handler waits for. A handler can
   * send before it returns, so this is known a little later.
   */
  endsWithReply: Promise<boolean>;
  /** Its handler has sent something. */
  sends: boolean;
  /** All of the reply is there. */
  readonly ended: () => void;
  /** Resolves when the lock was released, to whether it was lost. */
  readonly isReleased: Promise<boolean>;
}

/**
 * A plugin: every route that is declared after it in the same context, or inside of it, takes the lock that `key` names for a request, and
 * releases it when the handler has settled, before its value is sent; a stream's lock, when the stream has ended or the connection was closed.
 * A busy lock is answered with 409, or 423, and `Retry-After`. A success after the lock was lost is sent as 503.
 */
export function locked<R extends FastifyRequest = FastifyRequest>(
  locks: Locks,
  key: (request: R) => string | Promise<string>,
  options: LockedOptions = {},
): FastifyPluginCallback {
  const checked = checkLocked(locks, key, options);
  const working = new WeakMap<FastifyRequest, Working>();
  return pluginOf(
    "holdfast-locked",
    (call) => pass(locks, key as (request: FastifyRequest) => string | Promise<string>, checked, working, call),
    (app) =>
      app.addHook("onSend", async (request, reply, payload) => {
        const now = working.get(request);
        return now === undefined ? payload : await held(now, checked, reply, payload);
      }),
  );
}

/** What is to be sent in the place of `payload`. */
async function held(now: Working, options: CheckedLocked, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const { before, ended, isReleased } = now;
  now.sends = true;
  const endsWithReply = await now.endsWithReply;
  if (endsWithReply && !isStream(payload)) {
    ended();
    if (!(await isReleased) || reply.statusCode >= 400) return payload;
    return replaced(reply, lost(options.retrySeconds), before);
  }
  if (reply.statusCode < 400 && !isHeld(now.lease)) {
    destroy(payload);
    ended();
    return replaced(reply, lost(options.retrySeconds), before);
  }
  if (!endsWithReply) return payload;
  void whenSent(reply).then(ended);
  return guarded(payload as object, ended, isReleased);
}

function replaced(reply: FastifyReply, answer: Answer, before: Working["before"]): string {
  setAnswer(reply, answer, before);
  return answer.body;
}

function destroy(payload: unknown): void {
  const { destroy: end, cancel } = (payload ?? {}) as { destroy?: () => void; cancel?: () => Promise<void> };
  if (end !== undefined) end.call(payload);
  else void cancel?.call(payload).catch(() => undefined);
}

/** A stream, whose end waits for the release of its lock, and does not come where that was lost. Where it is destroyed, its source is, too. */
function guarded(source: object, ended: () => void, isReleased: Promise<boolean>): object {
  const from = "getReader" in source ? Readable.fromWeb(source as Parameters<typeof Readable.fromWeb>[0]) : source;
  // A `Response`: Fastify takes its headers over.
  if (!("pipe" in from)) return source;
  const through = new Transform({
    transform: (chunk, _encoding, done) => done(null, chunk),
    flush: (end) => {
      ended();
      void isReleased.then((isLost) =>
        end(isLost ? new Error("The lock was lost while the response was sent.") : null),
      );
    },
  });
  return pipeline(from as Readable, through, ended);
}

async function pass(
  locks: Locks,
  key: (request: FastifyRequest) => string | Promise<string>,
  options: CheckedLocked,
  working: WeakMap<FastifyRequest, Working>,
  { request, reply, handle }: Call,
): Promise<unknown> {
  const before = { ...reply.getHeaders() };
  const gone = whenGone(reply.raw);
  let sentHere = false;
  let [released, ended] = [(_lost: boolean): void => undefined, (): void => undefined];
  const isReleased = new Promise<boolean>((resolve) => void (released = resolve));
  const isEnded = new Promise<void>((resolve) => void (ended = resolve));
  try {
    const turn = await runLocked(locks, await key(request), options, gone.signal, async (lease) => {
      gone.off();
      request.lease = lease;
      let returned = (_nothing: boolean): void => undefined;
      const endsWithReply = new Promise<boolean>((resolve) => void (returned = resolve));
      const now: Working = { lease, before, sends: false, endsWithReply, ended, isReleased };
      working.set(request, now);
      const { value, isNothing } = begin(handle, returned);
      if (isNothing && !isHijacked(reply)) {
        sentHere = true;
        return await untilEnded(locks, lease, reply, isEnded, options.graceMs);
      }
      const given = await value;
      if (isHijacked(reply)) return await whenSent(reply);
      // Sent, and on its way: Fastify would send the value, too.
      if (given === undefined && now.sends) sentHere = true;
      if (!isStream(given)) return given;
      sentHere = true;
      now.endsWithReply = Promise.resolve(true);
      reply.send(given);
      return await untilEnded(locks, lease, reply, isEnded, options.graceMs);
    });
    released(!turn.ran && turn.lost);
    working.delete(request);
    // Not from the work: the reply is a thenable that waits until it was sent, and it is sent after the release.
    if (sentHere) return reply;
    if (turn.ran) return turn.value;
    if (reply.sent) return undefined;
    if (turn.lost && reply.statusCode >= 400) return turn.value;
    return replaced(reply, turn.answer, before);
  } catch (error) {
    released(false);
    working.delete(request);
    throw withStatus(error);
  } finally {
    gone.off();
  }
}

/** Calls the handler, and says whether it returned nothing: then it works until it sends its reply. */
function begin(
  handle: () => unknown,
  returned: (nothing: boolean) => void,
): { readonly value: unknown; readonly isNothing: boolean } {
  let isNothing = false;
  try {
    const value = handle();
    isNothing = value === undefined;
    return { value, isNothing };
  } finally {
    returned(isNothing);
  }
}

/** Resolves when all of the reply is there. Takes the lease away where the connection was closed, and the handler has not sent it in time. */
async function untilEnded(
  locks: Locks,
  lease: Lease,
  reply: FastifyReply,
  isEnded: Promise<void>,
  graceMs: number,
): Promise<void> {
  const { over, off } = whenOver(reply, graceMs);
  const isOver = await Promise.race([isEnded.then(() => true), over.then(() => reply.raw.writableFinished)]);
  off();
  if (!isOver) await takeAway(locks, lease);
}
