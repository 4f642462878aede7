/** What of Express is used here, by structure, so that it fits both versions and plain `node:http`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Lease } from "../../core/api.ts";
import type { Answer } from "../http/answer.ts";

export interface LeasedRequest extends IncomingMessage {
  lease?: Lease;
}

export type Next = (error?: unknown) => void;
export type Middleware<R> = (request: R, response: ServerResponse, next: Next) => void;

/** Sent by us, before any handler has begun. Headers that are there already, such as those of CORS, stay. */
export function answerNow(response: ServerResponse, { status, headers, body }: Answer): void {
  if (response.headersSent) return;
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader("content-length", Buffer.byteLength(body));
  response.end(body);
}
