/** Hono: a request with an idempotency key is done once, and answered again from what is kept. */
import type { Context, MiddlewareHandler, Next } from "hono";
import type { Locks } from "../../core/api.ts";
import { withStatus } from "../http/answer.ts";
import {
  answerOnce,
  type Asked,
  type CheckedIdempotent,
  checkIdempotent,
  type IdempotentOptions,
  isSafeMethod,
  type Reply,
} from "../http/idempotency.ts";
import { isAnsweredMeanwhile } from "./answered.ts";
import { bodyDigestOf } from "./body.ts";
import { type Kept, type Made, replayHeaders, safeHeaders } from "../http/record.ts";
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
 * Has a request with an `Idempotency-Key` handled once in its scope, and answers the next ones with the same status, body and safe headers, for
 * as long as `keep` says. The body is read through `c.req`, which keeps it for the handler. Requests with a safe method pass.
 */
export function idempotent(locks: Locks, options: IdempotentOptions<Context>): MiddlewareHandler<Leased> {
  const checked = checkIdempotent(locks, options);
  return async (c, next) => {
    if (isSafeMethod(c.req.method)) return await next();
    try {
      return await pass(locks, checked, c, next);
    } catch (error) {
      throw withResponse(withStatus(error));
    }
  };
}

async function pass(
  locks: Locks,
  options: CheckedIdempotent<Context>,
  c: Context<Leased>,
  next: Next,
): Promise<Response | undefined> {
  const before = new Headers(c.res.headers);
  let streams = (): void => undefined;
  const isStreaming = new Promise<"streams">((resolve) => void (streams = () => resolve("streams")));
  let began = false;
  const reply: Promise<Reply> = answerOnce(locks, options, c, askedOf(c), c.req.raw.signal, async (lease) => {
    began = true;
    c.set("lease", lease);
    if (await isAnsweredMeanwhile(c, next)) return { status: 200, headers: [], body: undefined };
    return await madeOf(c, before, () => reply, streams);
  });
  const first = await Promise.race([reply, isStreaming]);
  if (first === "streams" || first.kind === "made") return undefined;
  if (first.kind === "skip") {
    await next();
    return undefined;
  }
  if (first.kind === "replay") return replayOf(first.kept);
  if (!began) return responseOf(first.answer, before);
  replaceResponse(c, responseOf(first.answer, before));
  return undefined;
}

/** The handler's response; of a stream, when all of it was read, only that there was one. */
async function madeOf(c: Context, before: Headers, reply: () => Promise<Reply>, streams: () => void): Promise<Made> {
  const { res } = c;
  const { status } = res;
  const headers = safeHeaders(Object.fromEntries(res.headers), Object.fromEntries(before));
  const ahead = await readAhead(c);
  if (ahead === undefined) return { status, headers, body: res.body === null ? joined([]) : undefined };
  const { rest, chunks } = ahead;
  if (rest === undefined) {
    const body = joined(chunks);
    replaceResponse(c, responseWith(res, body));
    return { status, headers, body };
  }
  await new Promise<void>((resolve) => {
    const over = async (): Promise<boolean> => {
      resolve();
      const last = await reply().catch(() => undefined);
      return last?.kind === "made";
    };
    replaceResponse(c, responseWith(res, streamOf({ chunks, rest }, over, c.req.raw.signal)));
    streams();
  });
  return { status, headers, body: undefined };
}

/** Hono adds the headers that are there already. */
function replayOf(kept: Kept & { readonly body: Uint8Array }): Response {
  const { status, body } = kept;
  const headers = Object.fromEntries(replayHeaders(kept));
  // Statuses without a body refuse an empty one, too; and a server may say of an empty one that it is text.
  const isNone = [204, 205, 304].includes(status) || body.length === 0;
  return new Response(isNone ? null : Buffer.from(body), { status, headers });
}

function askedOf(c: Context): Asked {
  const { pathname, search } = new URL(c.req.url);
  return {
    method: c.req.method,
    path: `${pathname}${search}`,
    key: c.req.header("idempotency-key"),
    contentType: c.req.header("content-type"),
    bodyDigest: () => bodyDigestOf(c.req),
  };
}
