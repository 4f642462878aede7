/** Express: a request with an idempotency key is done once, and answered again from what is kept. */
import type { ServerResponse } from "node:http";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";
import { withStatus } from "../http/answer.ts";
import { hasBody, mediaType, textOfParsed } from "../http/body.ts";
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
import { replayHeaders, safeHeaders } from "../http/record.ts";
import { type Ended, holdResponse } from "./held-response.ts";
import { answerNow, type LeasedRequest, type Middleware } from "./request.ts";

export interface ExpressIdempotentOptions<R> extends IdempotentOptions<R> {
  /** The raw body, where it is elsewhere. @default `request.rawBody`, else what a parser has made of it */
  readonly body?: ((request: R) => Uint8Array | string) | undefined;
}

/**
 * Has a request with an `Idempotency-Key` handled once in its scope, and answers the next ones with the same status, body and safe headers, for
 * as long as `keep` says. Stands after the parser of the body and after the middleware that knows the user. Requests with a safe method pass.
 */
export function idempotent<R extends LeasedRequest>(locks: Locks, options: ExpressIdempotentOptions<R>): Middleware<R> {
  const { body, ...rest } = options;
  const checked = checkIdempotent(locks, rest);
  return (request, response, next) => {
    if (isSafeMethod(request.method ?? "")) next();
    // `next` and the response report every outcome, so the promise is not needed.
    else void pass(locks, checked, body, [request, response, next]);
  };
}

async function pass<R extends LeasedRequest>(
  locks: Locks,
  options: CheckedIdempotent<R>,
  body: ExpressIdempotentOptions<R>["body"],
  [request, response, next]: Parameters<Middleware<R>>,
): Promise<void> {
  const gone = whenGone(response);
  let ended: Ended | undefined;
  let delivered = false;
  try {
    const before = response.getHeaders();
    const reply = await answerOnce(locks, options, request, askedOf(request, body), gone.signal, async (lease) => {
      gone.off();
      request.lease = lease;
      const held = holdResponse(response, options.graceMs);
      next();
      ended = await held;
      const { how, status, headers } = ended;
      if (how === "abandoned") await takeAway(locks, lease);
      if (how === "abandoned" || how === "destroyed") return undefined;
      return { status, headers: safeHeaders(headers, before), body: how === "whole" ? ended.body : undefined };
    });
    delivered = true;
    if (reply.kind === "skip") next();
    else send(response, ended, reply);
  } catch (error) {
    if (ended === undefined) next(withStatus(error));
    else if (delivered) response.destroy();
    else ended.send();
  } finally {
    gone.off();
  }
}

function send(response: ServerResponse, ended: Ended | undefined, reply: Exclude<Reply, { kind: "skip" }>): void {
  if (reply.kind === "made") return ended?.send();
  if (reply.kind === "answer")
    return ended === undefined ? answerNow(response, reply.answer) : ended.replace(reply.answer);
  if (response.headersSent) return;
  response.statusCode = reply.kept.status;
  for (const [name, value] of replayHeaders(reply.kept)) response.setHeader(name, value);
  response.end(reply.kept.body);
}

function askedOf<R extends LeasedRequest>(request: R, body: ExpressIdempotentOptions<R>["body"]): Asked {
  const { method = "", headers } = request;
  const { originalUrl } = request as { readonly originalUrl?: string };
  const key = headers["idempotency-key"];
  return {
    method,
    path: originalUrl ?? request.url ?? "",
    key: Array.isArray(key) ? key.join(", ") : key,
    contentType: headers["content-type"],
    bodyDigest: () => digestOf(body?.(request) ?? rawBody(request)),
  };
}

/** As it arrived, or as a parser has made it. Throws where it is not known: another body under the same key must not go unnoticed. */
function rawBody(request: LeasedRequest): Uint8Array | string {
  const { rawBody: raw, body } = request as { readonly rawBody?: unknown; readonly body?: unknown };
  if (typeof raw === "string" || raw instanceof Uint8Array) return raw;
  if (!hasBody(request)) return "";
  const type = mediaType(request.headers["content-type"]);
  if (request.readableEnded && body !== undefined && isAll(body, type))
    return typeof body === "string" || body instanceof Uint8Array ? body : textOfParsed(body);
  throw new ArgumentError(
    "Expected the body of the request to be known to idempotent(): put a parser such as express.json() before it, set request.rawBody, or give the option `body`",
  );
}

/** The files of a multipart body are not in it. Express 4 has `{}` for what its parsers did not read, and another one may have read that. */
function isAll(body: unknown, type: string): boolean {
  if (type.startsWith("multipart/")) return false;
  const isNothing = typeof body === "object" && body !== null && Object.keys(body).length === 0;
  return !isNothing || body instanceof Uint8Array || /[/+]json$|\/x-www-form-urlencoded$/.test(type);
}
