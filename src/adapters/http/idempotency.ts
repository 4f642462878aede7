/** One request under one idempotency key, independent of the framework: done once, and answered again from what is kept. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { OUTCOME_KEEP_MAX_MS, OUTCOME_KEEP_MIN_MS } from "../../contract/claim.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { Lease, LockOptions, Locks } from "../../core/api.ts";
import {
  type Answer,
  busy,
  hasCode,
  keyMissing,
  keyReused,
  lost,
  notReplayable,
  toSeconds,
  unavailable,
} from "./answer.ts";
import { mediaType } from "./body.ts";
import { checkLockOptions, checkLocks, toGraceMs } from "./lock-request.ts";
import { fingerprint, outcomeName } from "./names.ts";
import { CODEC, isTransient, type Kept, type Made } from "./record.ts";

type MaybePromise<T> = T | Promise<T>;

export interface IdempotentOptions<R> extends Pick<LockOptions, "ttl" | "renew" | "maxHold" | "meta"> {
  /** Whose key it is: the user or the tenant, as the server knows them. No request gets a response of another scope. */
  readonly scope: (request: R) => MaybePromise<string>;
  /** For how long responses are kept: 1 s to a year. @default "24h" */
  readonly keep?: Duration | undefined;
  /** The request's key. `undefined`: it has none. @default its header Idempotency-Key */
  readonly key?: ((request: R) => MaybePromise<string | undefined>) | undefined;
  /** False: a request without a key is handled as if idempotent() were not there. @default true: it is answered with 400 */
  readonly required?: boolean | undefined;
  /** How long a request waits for the one with the same key that is running. @default not at all: 409 */
  readonly wait?: Duration | undefined;
  /** What `Retry-After` says, in whole seconds. @default "1s" */
  readonly retryAfter?: Duration | undefined;
  /**
   * Express, and handlers of Fastify that return nothing: how long one may go on after its connection was closed, without ending its response,
   * before the key is free for the next request. `Infinity` is allowed. @default "1m"
   */
  readonly grace?: Duration | undefined;
}

export interface CheckedIdempotent<R> {
  readonly scope: (request: R) => MaybePromise<string>;
  readonly key: ((request: R) => MaybePromise<string | undefined>) | undefined;
  readonly required: boolean;
  readonly once: Pick<LockOptions, "ttl" | "renew" | "maxHold" | "meta"> & {
    readonly keep: Duration;
    readonly wait: Duration;
  };
  readonly retrySeconds: number;
  readonly graceMs: number;
}

/** `made`: the handler's own response is to be sent. `skip`: there is no key, and none is needed. */
export type Reply =
  | { readonly kind: "made" }
  | { readonly kind: "skip" }
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "replay"; readonly kept: Kept & { readonly body: Uint8Array } };

/** What a framework knows of a request. */
export interface Asked {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** The header Idempotency-Key. */
  readonly key: string | undefined;
  /** The header Content-Type. */
  readonly contentType: string | undefined;
  readonly bodyDigest: () => MaybePromise<string>;
}

const KEY_MAX = 255;
const PRINTABLE = /^[\x20-\x7e\x80-\xff]+$/;
const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

/** Nothing is done by them, so that nothing can be done twice. */
export function isSafeMethod(method: string): boolean {
  return SAFE_METHODS.has(method);
}

export function checkIdempotent<R>(locks: Locks, options: IdempotentOptions<R>): CheckedIdempotent<R> {
  checkLocks(locks);
  const { scope, key, required = true, keep = "24h", wait = 0, retryAfter, grace, ...lock } = options;
  if (typeof scope !== "function") {
    throw new ArgumentError(
      `Expected \`scope\` to be a function that says whose request it is (user or tenant), got ${got(scope)}`,
    );
  }
  if (key !== undefined && typeof key !== "function") {
    throw new ArgumentError(`Expected \`key\` to be a function that gives the key of a request, got ${got(key)}`);
  }
  toMs(wait, "wait", { minMs: 0, maxMs: Infinity });
  toMs(keep, "keep", { minMs: OUTCOME_KEEP_MIN_MS, maxMs: OUTCOME_KEEP_MAX_MS });
  checkLockOptions(lock, ["signal", "mode", "limit"]);
  return {
    scope,
    key,
    required,
    once: { ...lock, keep, wait },
    retrySeconds: toSeconds(retryAfter),
    graceMs: toGraceMs(grace),
  };
}

/** Thrown by the work of a once(), so that nothing is kept. */
class NotKept extends Error {}

/**
 * Has `work` make the response, if no request with this key has made one. `work` resolves to `undefined` where there is no response. Rejects
 * where the store could not be asked, or as `scope` and `key` do.
 */
export async function answerOnce<R>(
  locks: Locks,
  options: CheckedIdempotent<R>,
  request: R,
  asked: Asked,
  gone: AbortSignal | undefined,
  work: (lease: Lease) => Promise<Made | undefined>,
): Promise<Reply> {
  const key = options.key === undefined ? asked.key : await options.key(request);
  if (key === undefined && !options.required) return { kind: "skip" };
  if (typeof key !== "string" || key.length > KEY_MAX || !PRINTABLE.test(key))
    return { kind: "answer", answer: keyMissing() };
  const scope = await options.scope(request);
  if (typeof scope !== "string" || scope === "") {
    throw new ArgumentError(
      `Expected \`scope\` to say whose request it is, got ${got(scope)}: is the user known here?`,
    );
  }
  const mine = fingerprint(asked.method, asked.path, mediaType(asked.contentType), await asked.bodyDigest());
  let made: Made | undefined;
  let began = false;
  try {
    const { value, replayed } = await locks.once<Kept>(
      outcomeName(scope, key),
      { ...options.once, codec: CODEC, ...(gone === undefined ? {} : { signal: gone }) },
      async (lease) => {
        began = true;
        made = await work(lease);
        if (made === undefined || isTransient(made)) throw new NotKept();
        return { ...made, fingerprint: mine };
      },
    );
    return replayed ? replyOf(value, mine) : { kind: "made" };
  } catch (error) {
    const answer = began ? afterWork(error, made, options) : beforeWork(error, gone, options);
    if (answer !== undefined) return answer;
    throw began ? error : unavailable(error, options.retrySeconds);
  }
}

function replyOf(kept: Kept | undefined, mine: string): Reply {
  // Done without any value: by another program under the same name.
  if (kept === undefined) return { kind: "answer", answer: notReplayable() };
  if (kept.fingerprint !== mine) return { kind: "answer", answer: keyReused() };
  const { body } = kept;
  return body === undefined ? { kind: "answer", answer: notReplayable() } : { kind: "replay", kept: { ...kept, body } };
}

function afterWork<R>(
  error: unknown,
  made: Made | undefined,
  { retrySeconds }: CheckedIdempotent<R>,
): Reply | undefined {
  if (error instanceof NotKept) return { kind: "made" };
  if (!hasCode(error, "ERR_LOCK_LOST")) return undefined;
  // The work ended under its lease, and only whether that is kept is not known: what the response says is true.
  const unkept = (error as { readonly loss?: { readonly kind?: string } }).loss?.kind === "unkept";
  if (unkept || (made !== undefined && made.status >= 400)) return { kind: "made" };
  return { kind: "answer", answer: lost(retrySeconds) };
}

function beforeWork<R>(
  error: unknown,
  gone: AbortSignal | undefined,
  { retrySeconds }: CheckedIdempotent<R>,
): Reply | undefined {
  // As a cause: a failure that another program has kept under the same name.
  const isKept = hasCode(error, "ERR_LOCK_OUTCOME") || hasCode((error as Error | undefined)?.cause, "ERR_LOCK_OUTCOME");
  if (isKept) return { kind: "answer", answer: notReplayable() };
  const isBusy = hasCode(error, "ERR_LOCK_TIMEOUT") || (gone?.aborted === true && error === gone.reason);
  if (!isBusy) return undefined;
  const { quarantineMs } = error as { readonly quarantineMs?: number };
  return { kind: "answer", answer: busy(409, retrySeconds, quarantineMs) };
}
