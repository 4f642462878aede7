/** Answers and requests, as plain Node has them: headers that keep a page to itself, and bodies of bounded size. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Refusal } from "./wire.ts";

/** More is no request of the page. */
const BODY_MAX_BYTES = 16_384;

/** What every answer has. No script or style but our own files, no other host, no frame around it, and nothing made of text. */
const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** A request as frameworks leave it: some have read its body, or say where it is mounted. */
export interface GivenRequest extends IncomingMessage {
  readonly body?: unknown;
  readonly baseUrl?: string | undefined;
  readonly originalUrl?: string | undefined;
}

/** A request that is not answered with what it wants. */
export class RefusedError extends Error {
  readonly status: number;
  readonly code: Refusal["code"];

  constructor(status: number, code: Refusal["code"], message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function setHeaders(response: ServerResponse): void {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  send(response, status, "application/json; charset=utf-8", JSON.stringify(value));
}

export function send(response: ServerResponse, status: number, type: string, text: string): void {
  const body = Buffer.from(text);
  response.writeHead(status, { "content-type": type, "content-length": body.length });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

/** Where it is mounted, and the path under that. Absent: the request is for another place. */
export function routeOf(request: GivenRequest, path: string | undefined): string | undefined {
  const base = path ?? request.baseUrl ?? "";
  const [full = ""] = (request.originalUrl ?? request.url ?? "").split("?", 1);
  if (full === base) return undefined;
  return full.startsWith(`${base}/`) ? full.slice(base.length + 1) : "?";
}

/** The body as an object. Only JSON: a form of another site cannot send that without asking first. */
export async function readBody(request: GivenRequest): Promise<Readonly<Record<string, unknown>>> {
  if (!/^application\/json\s*(?:;|$)/i.test(request.headers["content-type"] ?? ""))
    throw new RefusedError(415, "bad-request", "The body must be JSON.");
  const given = request.body ?? (await readText(request));
  try {
    const value: unknown = typeof given === "string" || Buffer.isBuffer(given) ? JSON.parse(String(given)) : given;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // It is no JSON.
  }
  throw new RefusedError(400, "bad-request", "The body is not a JSON object.");
}

async function readText(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      if (size > BODY_MAX_BYTES) throw new RefusedError(413, "bad-request", "The body is too large.");
      parts.push(part);
    }
  } catch (error) {
    // Who hangs up in the middle of it is no fault of the app's.
    throw request.errored === error ? new RefusedError(400, "bad-request", "The body is not whole.") : error;
  }
  return Buffer.concat(parts).toString();
}
