/** Guards in front of request handlers: Express (and plain node:http), Fastify, and fetch-style handlers. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";

import type { Fenced } from "../fenced.ts";
import { FENCE_HEADER } from "../header.ts";
import { FenceRejectedError } from "../rejected.ts";
import { admittedFence, type HttpGuardOptions, judge, type Refusal, rejection } from "./refusal.ts";

/** A middleware for Express, or for anything that calls `(request, response, next)` with node's own objects. */
export function expressGuard<R extends IncomingMessage>(
  options: HttpGuardOptions<R>,
): (request: R, response: ServerResponse, next: (error?: unknown) => void) => void {
  // `next` reports every outcome, so the promise is not needed.
  return (request, response, next) => void pass(options, request, response, next);
}

async function pass<R extends IncomingMessage>(
  options: HttpGuardOptions<R>,
  request: R,
  response: ServerResponse,
  next: (error?: unknown) => void,
): Promise<void> {
  let refusal: Refusal | undefined;
  try {
    refusal = await judge(options, request, text(request.headers));
  } catch (error) {
    next(error);
    return;
  }
  if (refusal === undefined) next();
  else response.writeHead(refusal.status, refusal.headers).end(refusal.body);
}

interface FastifyRequestLike {
  readonly headers: IncomingHttpHeaders;
}

interface FastifyReplyLike {
  code(status: number): unknown;
  headers(values: Record<string, string>): unknown;
  send(body: string): unknown;
}

/** A `preHandler` for Fastify. */
export function fastifyGuard<R extends FastifyRequestLike>(
  options: HttpGuardOptions<R>,
): (request: R, reply: FastifyReplyLike) => Promise<unknown> {
  return async (request, reply) => {
    const refusal = await judge(options, request, text(request.headers));
    if (refusal === undefined) return undefined;
    reply.code(refusal.status);
    reply.headers({ ...refusal.headers });
    reply.send(refusal.body);
    return reply;
  };
}

/** Wraps a fetch-style handler, which gets the fence as well. A `FenceRejectedError` that it throws is answered with 412. */
export function fetchGuard<R extends Request>(
  options: HttpGuardOptions<R>,
  handler: (request: R, fenced: Fenced) => Response | Promise<Response>,
): (request: R) => Promise<Response> {
  return async (request) => {
    const refusal = await judge(options, request, request.headers.get(FENCE_HEADER) ?? undefined);
    if (refusal !== undefined) return respond(refusal);
    try {
      return await handler(request, admittedFence(request));
    } catch (error) {
      if (error instanceof FenceRejectedError) return respond(rejection(error));
      throw error;
    }
  };
}

function respond({ status, headers, body }: Refusal): Response {
  return new Response(body, { status, headers });
}

/** Node joins a repeated header with commas, as the format requires; an array can only come from another framework. */
function text(headers: IncomingHttpHeaders): string | undefined {
  const value = headers[FENCE_HEADER];
  return Array.isArray(value) ? value.join(", ") : value;
}
