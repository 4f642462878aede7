/**
 * A response of `node:http` whose end is held back: what the handler made of it is known before the client has it, and can still be replaced.
 * A response that is written in parts is a stream: its parts are sent as they come, and only its end is held back.
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Answer } from "../http/answer.ts";
import { onClosed } from "../http/connection.ts";

export interface Ended {
  /** `abandoned`: the connection was closed, and the handler has not ended the response in time. `destroyed`: by the handler itself. */
  readonly how: "whole" | "stream" | "abandoned" | "destroyed";
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  /** Empty where it was no `whole` one. */
  readonly body: Buffer;
  /** Sends it as it was when the handler ended it. */
  send(): void;
  /** Sends this in its place; a stream, of which the client has a part, is cut off. */
  replace(answer: Answer): void;
}

type End = ServerResponse["end"];
type WriteHead = ServerResponse["writeHead"];
type Chunk = string | Uint8Array | undefined;

/** What reads as true once a response is ended. Handlers and error handlers go by it. */
const ENDED_SIGNS = ["headersSent", "writableEnded"] as const;

/** From now on the response's end is held back. Resolves when the handler has ended it, or `graceMs` after its connection was closed. */
export function holdResponse(response: ServerResponse, graceMs: number): Promise<Ended> {
  const before = { ...response.getHeaders() };
  // Not always those of Node: compression and sessions have theirs.
  const write = response.write.bind(response);
  const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
  const writeHead = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
  const flushHeaders = response.flushHeaders.bind(response);
  const destroy = response.destroy.bind(response);
  let state: "open" | "stream" | "ended" | "free" = "open";
  let grace: NodeJS.Timeout | undefined;
  let off = (): void => undefined;

  return new Promise((resolve) => {
    const settle = (ended: Ended): void => {
      clearTimeout(grace);
      off();
      resolve(ended);
    };
    // What others have put over ours since stays, and reaches the original through ours.
    const letGo = (): void => {
      state = "free";
      for (const sign of ENDED_SIGNS) Reflect.deleteProperty(response, sign);
    };
    const leave = (how: "abandoned" | "destroyed"): void => {
      letGo();
      const nothing = (): void => undefined;
      settle({ ...facts(response), how, body: Buffer.alloc(0), send: nothing, replace: nothing });
    };
    let isClosed = false;
    const onClose = (): void => {
      isClosed = true;
      if (graceMs === Infinity) return;
      grace = setTimeout(() => leave("abandoned"), graceMs);
      grace.unref();
    };
    const startStream = (): void => {
      if (state === "open") state = "stream";
    };

    response.write = function (this: ServerResponse, ...args: unknown[]) {
      if (state === "ended") return false;
      startStream();
      return Reflect.apply(write, response, args) as boolean;
    };
    response.flushHeaders = function () {
      if (state === "ended") return;
      startStream();
      flushHeaders();
    };
    // As pipeline() does when its source fails. Of a connection that is closed already it does so, too, while the handler may still work.
    response.destroy = function (this: ServerResponse, ...args: Parameters<typeof destroy>) {
      if (!isClosed && (state === "open" || state === "stream")) leave("destroyed");
      return destroy(...args);
    };
    response.writeHead = function (this: ServerResponse, ...args: unknown[]) {
      if (state === "open") setHead(response, args);
      if (state === "open" || state === "ended") return response;
      return writeHead(...args);
    } as WriteHead;
    response.end = function (this: ServerResponse, ...args: unknown[]) {
      if (state === "ended") return response;
      if (state === "free") return end(...args);
      const [chunk, encoding, done] = endArguments(args);
      const body = bufferOf(chunk, encoding);
      const how = state === "stream" ? "stream" : "whole";
      const { status, headers } = facts(response);
      const { statusMessage } = response;
      if (how === "whole") checkHead(status, statusMessage);
      state = "ended";
      for (const sign of ENDED_SIGNS) Object.defineProperty(response, sign, { value: true, configurable: true });
      const send = (): void => {
        letGo();
        if (how === "whole") reset(response, status, headers, statusMessage);
        end(...(body.length > 0 ? [body] : []), ...(done === undefined ? [] : [done]));
      };
      const replace = (answer: Answer): void => {
        letGo();
        if (how === "stream") return void response.destroy();
        reset(
          response,
          answer.status,
          { ...before, ...answer.headers, "content-length": Buffer.byteLength(answer.body) },
          "",
        );
        end(answer.body, ...(done === undefined ? [] : [done]));
      };
      settle({ how, status, headers, body: how === "whole" ? body : Buffer.alloc(0), send, replace });
      return response;
    } as End;

    off = onClosed(response, onClose);
  });
}

function facts(response: ServerResponse): { readonly status: number; readonly headers: OutgoingHttpHeaders } {
  // Node takes a text for it, too.
  return { status: Number(response.statusCode), headers: { ...response.getHeaders() } };
}

/** Whatever was set since: a handler that failed after its response was ended, for example, had its error handler set another status. */
function reset(response: ServerResponse, status: number, headers: OutgoingHttpHeaders, statusMessage: string): void {
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) response.setHeader(name, value);
  response.statusCode = status;
  response.statusMessage = statusMessage;
}

/** As Node does when it sends them, which is too late here: what cannot be sent is the handler's fault, and must not be kept. */
function checkHead(status: number, statusMessage: string | undefined): void {
  if (!Number.isInteger(status) || status < 100 || status > 999) throw new RangeError(`Invalid status code: ${status}`);
  // oxlint-disable-next-line no-control-regex
  if (/[^\t\x20-\x7e\x80-\xff]/.test(statusMessage ?? "")) throw new TypeError("Invalid character in statusMessage");
}

/** As writeHead(status, message?, headers?) does, but nothing is sent yet. */
function setHead(response: ServerResponse, [status, ...rest]: readonly unknown[]): void {
  response.statusCode = status as number;
  const [message, headers] = typeof rest[0] === "string" ? rest : [undefined, rest[1] ?? rest[0]];
  if (typeof message === "string") response.statusMessage = message;
  if (!Array.isArray(headers)) {
    for (const [name, value] of Object.entries((headers ?? {}) as Record<string, string>))
      response.setHeader(name, value);
    return;
  }
  const pairs = headerPairs(headers);
  // One name may be there several times, as Set-Cookie is.
  for (const [name] of pairs) response.removeHeader(name);
  for (const [name, value] of pairs) response.appendHeader(name, value);
}

function headerPairs(headers: readonly unknown[]): readonly (readonly [string, string])[] {
  if (Array.isArray(headers[0])) return headers as [string, string][];
  return headers.flatMap((name, at) => (at % 2 === 0 ? [[name as string, headers[at + 1] as string] as const] : []));
}

function endArguments(args: readonly unknown[]): [Chunk, BufferEncoding | undefined, (() => void) | undefined] {
  const done = args.find((one) => typeof one === "function") as (() => void) | undefined;
  const [chunk, encoding] = args.filter((one) => typeof one !== "function");
  return [(chunk ?? undefined) as Chunk, (encoding ?? undefined) as BufferEncoding | undefined, done];
}

function bufferOf(chunk: Chunk, encoding: BufferEncoding | undefined): Buffer {
  return typeof chunk === "string" ? Buffer.from(chunk, encoding) : Buffer.from(chunk ?? []);
}
