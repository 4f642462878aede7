/**
 * The event streams, one for each page that is open. A page that does not keep up is sent nothing until it has read what is there, and
 * then all rows anew; one that stays behind is let go. What waits to be read is the same bytes for all pages. So memory is bounded, however
 * slow a page is.
 */
import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Messages } from "./wire.ts";

/** More than this unread, and the page is behind. */
const UNREAD_MAX_BYTES = 1_048_576;
/** How long a page may be behind; also with the end of its stream. */
const BEHIND_MAX_MS = 30_000;
/** Then the page has to ask again, and is authorized again. */
const STREAM_MAX_MS = 600_000;

/** An event as it is sent. Made once for all pages. */
export function toEvent<Name extends keyof Messages>(name: Name, message: Messages[Name]): Buffer {
  return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(message)}\n\n`);
}

export class Viewer {
  readonly id: string = randomBytes(18).toString("base64url");
  readonly #response: ServerResponse;
  readonly #openedMs: number;
  #behindMs: number | undefined;
  #endedMs: number | undefined;
  /** Which user it is. */
  readonly who: string;
  /** The lock whose page is open. */
  lock: string | undefined;
  /** True: it has to get all rows anew. */
  wantsAll = true;

  constructor(response: ServerResponse, who: string, nowMs: number) {
    this.#response = response;
    this.who = who;
    this.#openedMs = nowMs;
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      // What compresses or collects answers on the way would keep events back.
      "cache-control": "no-store, no-transform",
      "x-accel-buffering": "no",
    });
    this.send(toEvent("stream", { id: this.id }));
  }

  send(event: Buffer): void {
    if (!this.#response.writableEnded && !this.#response.destroyed) this.#response.write(event);
  }

  /** False: it gets nothing this time. */
  isReady(nowMs: number): boolean {
    if (nowMs - this.#openedMs > STREAM_MAX_MS) {
      this.#endedMs ??= nowMs;
      // One that does not read does not see the end either.
      if (nowMs - this.#endedMs > BEHIND_MAX_MS) this.#response.destroy();
      else this.#response.end();
      return false;
    }
    if (this.#response.writableLength <= UNREAD_MAX_BYTES) {
      this.#behindMs = undefined;
      return true;
    }
    this.wantsAll = true;
    this.#behindMs ??= nowMs;
    if (nowMs - this.#behindMs > BEHIND_MAX_MS) this.#response.destroy();
    return false;
  }

  /** At once: who has not read what is there is not waited for. */
  end(): void {
    this.#response.end();
    if (this.#response.writableNeedDrain) this.#response.destroy();
  }
}
