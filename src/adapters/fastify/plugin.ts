/**
 * What both plugins are for Fastify: functions that add to the context in which they are registered, as fastify-plugin's do, and that put
 * themselves around the handlers of the routes that are declared there afterwards.
 */
import type { FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest, RouteHandlerMethod } from "fastify";
import type { Answer } from "../http/answer.ts";
import { onClosed } from "../http/connection.ts";

export type Around = (call: Call) => unknown;

/** One request, and how its handler is called. */
export interface Call {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly handle: () => unknown;
}

/** Who is around a handler of ours, from the outside inwards: in the order in which the plugins were registered. */
const arounds = new WeakMap<object, Around[]>();

function put(around: Around, handler: RouteHandlerMethod): RouteHandlerMethod {
  const outer = arounds.get(handler);
  if (outer !== undefined) {
    // A route for HEAD has the handler of its GET, and there we are already.
    if (!outer.includes(around)) outer.push(around);
    return handler;
  }
  const all = [around];
  const ours: RouteHandlerMethod = function (request, reply) {
    const from = (at: number): unknown => {
      const next = all[at];
      return next === undefined
        ? handler.call(this, request, reply)
        : next({ request, reply, handle: () => from(at + 1) });
    };
    return from(0);
  };
  arounds.set(ours, all);
  return ours;
}

export function pluginOf(
  name: string,
  around: Around,
  addHooks: (app: FastifyInstance) => void,
): FastifyPluginCallback {
  const plugin: FastifyPluginCallback = (app, _options, done) => {
    if (!app.hasRequestDecorator("lease")) app.decorateRequest("lease", null);
    app.addHook("onRoute", (route) => void (route.handler = put(around, route.handler)));
    addHooks(app);
    done();
  };
  return Object.assign(plugin, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: name,
    [Symbol.for("plugin-meta")]: { name, fastify: "5.x" },
  });
}

/** Makes this the reply's answer: what the handler has set, unless it was there before, is not part of it. */
export function setAnswer(
  reply: FastifyReply,
  { status, headers }: Answer,
  before: Readonly<Record<string, unknown>>,
): void {
  for (const name of Object.keys(reply.getHeaders())) if (!(name in before)) reply.removeHeader(name);
  reply.code(status).headers({ ...headers });
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === "function";
}

/** The handler writes to the socket itself, and has not ended that. */
export function isHijacked({ sent, raw }: FastifyReply): boolean {
  return sent && !raw.writableEnded;
}

export function isStream(payload: unknown): payload is object | AsyncIterable<unknown> {
  if (typeof payload !== "object" || payload === null) return false;
  return "pipe" in payload || "getReader" in payload || Object.prototype.toString.call(payload) === "[object Response]";
}

/** Resolves when the response was sent, or its connection closed: Fastify ends the stream of a response then. */
export function whenSent({ raw }: FastifyReply): Promise<void> {
  return new Promise((resolve) => {
    if (raw.writableFinished) return resolve();
    // It may be closed already.
    let off = (): void => undefined;
    const end = (): void => {
      raw.off("finish", end).off("error", end);
      off();
      resolve();
    };
    raw.on("finish", end).on("error", end);
    off = onClosed(raw, end);
  });
}

/** Resolves when the response was finished, or `graceMs` after its connection was closed. `off` must be called. */
export function whenOver(
  { raw }: FastifyReply,
  graceMs: number,
): { readonly over: Promise<void>; readonly off: () => void } {
  let timer: NodeJS.Timeout | undefined;
  let finished = (): void => undefined;
  let stop = (): void => undefined;
  const over = new Promise<void>((resolve) => {
    finished = resolve;
    raw.on("finish", finished);
    stop = onClosed(raw, () => {
      if (graceMs === Infinity) return;
      timer = setTimeout(resolve, graceMs);
      timer.unref();
    });
  });
  return {
    over,
    off: () => {
      clearTimeout(timer);
      stop();
      raw.off("finish", finished);
    },
  };
}
