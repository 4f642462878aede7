/** Fastify: a request with an idempotency key is done once, and answered again from what is kept. */
import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from "fastify";
import type { Lease, Locks } from "../../core/api.ts";
import { hasCode, withStatus } from "../http/answer.ts";
import { hasBody } from "../http/body.ts";
import { whenGone } from "../http/connection.ts";
import {
  answerOnce,
  type Asked,
  type CheckedIdempotent,
  checkIdempotent,
  type IdempotentOptions,
  isSafeMethod,
  type Reply,
} from "../http/idempotency.ts";
import { takeAway } from "../http/lock-request.ts";
import { digestOf } from "../http/names.ts";
import { isTransient, type Made, replayHeaders, safeHeaders } from "../http/record.ts";
import { CountedBody } from "./counted-body.ts";
import { type Call, isStream, isThenable, pluginOf, setAnswer, whenOver, whenSent } from "./plugin.ts";

/** A request whose handler works: its reply is held back until what came of it is kept. */
interface Working {
  readonly made: (made: Made) => void;
  readonly replied: Promise<Reply>;
  readonly before: Readonly<Record<string, unknown>>;
}

type Bodies = WeakMap<FastifyRequest, CountedBody>;

/**
 * A plugin: every route that is declared after it in the same context, or inside of it, has a request with an `Idempotency-Key` handled once in
 * its scope, and answers the next ones with the same status, body and safe headers, for as long as `keep` says. Requests with a safe method
 * pass. Register it before plugins that change what is sent, such as compression.
 */
export function idempotent<R extends FastifyRequest = FastifyRequest>(
  locks: Locks,
  options: IdempotentOptions<R>,
): FastifyPluginCallback {
  const checked = checkIdempotent(locks, options) as unknown as CheckedIdempotent<FastifyRequest>;
  const working = new WeakMap<FastifyRequest, Working>();
  const bodies: Bodies = new WeakMap();
  return pluginOf(
    "holdfast-idempotent",
    (call) => (isSafeMethod(call.request.method) ? call.handle() : pass(locks, checked, working, bodies, call)),
    (app) => {
      app.addHook("preParsing", (request, _reply, payload, done) => {
        // Where there is none, it is not read: Fastify would hear of its end, and take that for a client that has gone.
        if (isSafeMethod(request.method) || !hasBody(request.raw)) return done(null, payload);
        const body = new CountedBody(payload);
        bodies.set(request, body);
        done(null, body);
      });
      app.addHook("onSend", async (request, reply, payload) => {
        const now = working.get(request);
        return now === undefined ? payload : await held(now, reply, payload);
      });
    },
  );
}

/** What is to be sent in the place of `payload`, once what came of the request is kept. */
async function held({ made, replied, before }: Working, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const headers = safeHeaders(reply.getHeaders(), before);
  if (isStream(payload)) {
    // Its work ends with the stream, and nothing of it is kept.
    void whenSent(reply).then(() => made({ status: reply.statusCode, headers, body: undefined }));
    return payload;
  }
  made({ status: reply.statusCode, headers, body: Buffer.from((payload ?? "") as string | Buffer) });
  const outcome = await replied;
  if (outcome.kind !== "answer") return payload;
  setAnswer(reply, outcome.answer, before);
  return outcome.answer.body;
}

async function pass(
  locks: Locks,
  options: CheckedIdempotent<FastifyRequest>,
  working: WeakMap<FastifyRequest, Working>,
  bodies: Bodies,
  call: Call,
): Promise<unknown> {
  const { request, reply } = call;
  const gone = whenGone(reply.raw);
  let began = false;
  let replied = (_reply: Reply): void => undefined;
  const isReplied = new Promise<Reply>((resolve) => void (replied = resolve));
  try {
    const asked = askedOf(request, bodies);
    const answer = await answerOnce(locks, options, request, asked, gone.signal, (lease) => {
      gone.off();
      began = true;
      request.lease = lease;
      const expect = (made: (made: Made) => void): unknown =>
        working.set(request, { made, replied: isReplied, before: { ...reply.getHeaders() } });
      return work(locks, lease, call, options.graceMs, expect, () => replied({ kind: "made" }));
    });
    working.delete(request);
    replied(answer);
    if (answer.kind === "skip") return call.handle();
    if (began) return reply;
    return replay(reply, answer);
  } catch (error) {
    working.delete(request);
    replied({ kind: "made" });
    if (began) return reply;
    throw withStatus(error);
  } finally {
    gone.off();
  }
}

/**
 * Calls the handler, and has Fastify make a response of what it gives. Resolves to that, or to nothing where there will be none. `sendNow`: what was
 * made may be sent, although the handler still works.
 */
async function work(
  locks: Locks,
  lease: Lease,
  { request, reply, handle }: Call,
  graceMs: number,
  expect: (made: (made: Made) => void) => unknown,
  sendNow: () => void,
): Promise<Made | undefined> {
  const isMade = new Promise<Made>((resolve) => void expect(resolve));
  const { over, off } = whenOver(reply, graceMs);
  try {
    const settled = begin(handle);
    await settle(reply, settled, isMade);
    // Hijacked: the handler writes to the socket itself, and nothing of that is known.
    const streamed = (): Made => ({ status: reply.raw.statusCode, headers: [], body: undefined });
    if (reply.sent) return await Promise.race([isMade, whenSent(reply).then(streamed)]);
    const made = await Promise.race([isMade, over.then(() => (reply.raw.writableFinished ? streamed() : undefined))]);
    if (made === undefined) await takeAway(locks, lease);
    if (made === undefined || !isTransient(made) || !isTimedOut(request)) return made;
    sendNow();
    // Its key is not free while it works. What it comes to is not known, only whether it failed.
    const { failed } = await settled;
    return failed ? made : { status: 200, headers: [], body: undefined };
  } finally {
    off();
  }
}

/** Fastify has answered in the place of the handler, which works on. */
function isTimedOut({ signal }: FastifyRequest): boolean {
  return hasCode((signal as AbortSignal | undefined)?.reason, "FST_ERR_HANDLER_TIMEOUT");
}

type Settled = { readonly value: unknown; readonly failed: boolean; readonly isNow: boolean };

/** Calls the handler. Resolves to what it returns, resolves to or throws. `isNow`: it has not returned a promise. */
async function begin(handle: () => unknown): Promise<Settled> {
  let isNow = true;
  try {
    const returned = handle();
    isNow = !isThenable(returned);
    return { value: await returned, failed: false, isNow };
  } catch (value) {
    return { value, failed: true, isNow };
  }
}

/** As Fastify does it with what a handler returns, resolves to or throws. */
async function settle(reply: FastifyReply, settled: Promise<Settled>, isMade: Promise<Made>): Promise<void> {
  try {
    // One that returns the reply itself waits until it was sent, which is after all this.
    const first = await Promise.race([settled, isMade.then(() => undefined)]);
    if (first === undefined) return;
    const { value, failed, isNow } = first;
    if (failed || (isNow ? value !== undefined : !reply.sent)) reply.send(value);
  } catch (error) {
    reply.send(error);
  }
}

function replay(reply: FastifyReply, answer: Exclude<Reply, { kind: "skip" }>): unknown {
  if (answer.kind === "made") return reply;
  if (answer.kind === "answer") {
    setAnswer(reply, answer.answer, reply.getHeaders());
    return answer.answer.body;
  }
  reply.code(answer.kept.status).headers(Object.fromEntries(replayHeaders(answer.kept)));
  // Fastify would say of an empty buffer that it is one.
  return answer.kept.body.length === 0 ? undefined : answer.kept.body;
}

function askedOf(request: FastifyRequest, bodies: Bodies): Asked {
  const { headers, method, url } = request;
  const key = headers["idempotency-key"];
  return {
    method,
    path: url,
    key: Array.isArray(key) ? key.join(", ") : key,
    contentType: headers["content-type"],
    bodyDigest: () => bodies.get(request)?.digest(request) ?? digestOf(""),
  };
}
