/** Two kinds of a response of `fetch`: one that is there as a whole, and one whose body is still being made. */
import type { Context } from "hono";
import type { Lease } from "../../core/api.ts";
import type { Answer } from "../http/answer.ts";

/** What handlers behind the middleware have: `c.var.lease`. */
export interface Leased {
  Variables: {
    /** The lease of the last `locked()` or `idempotent()` before the handler. */
    lease: Lease;
  };
}

type Body = ConstructorParameters<typeof Response>[0];
type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** `rest`: where the body is a stream, its reader; what it has given already is in `chunks`. */
export interface Ahead {
  readonly chunks: readonly Uint8Array[];
  readonly rest: Reader | undefined;
}

/** More than this is not kept, and not waited for. */
const AHEAD_MAX = 65_536;
/** What a piece counts besides its bytes, so that there cannot be an endless number of empty ones. */
const PIECE = 64;

/**
 * Reads what of the body is there. A text, a buffer or JSON is there as a whole, in one piece; a stream that makes us wait, or that has ever more,
 * is not. Where `Response` keeps no record of what it was made of, this is the only way to tell. `undefined`: there is none to be read here.
 */
export async function readAhead({ res: { body }, req }: Context): Promise<Ahead | undefined> {
  // Someone else reads it: a middleware has answered before the handler did.
  if (body === null || body.locked) return undefined;
  if (req.method === "HEAD") {
    // Hono answers with the headers alone, and it would never be read.
    await body.cancel().catch(() => undefined);
    return undefined;
  }
  const reader = body.getReader() as Reader;
  const chunks: Uint8Array[] = [];
  for (let size = 0; chunks.length < 2 || size <= AHEAD_MAX;) {
    const read = reader.read();
    const first = await Promise.race([read, nextTurn()]);
    if (first === undefined) return { chunks, rest: resumed(reader, read) };
    if (first.done) return { chunks, rest: undefined };
    chunks.push(first.value);
    size += first.value.length + PIECE;
  }
  return { chunks, rest: reader };
}

function nextTurn(): Promise<undefined> {
  return new Promise((resolve) => void setTimeout(() => resolve(undefined), 0));
}

/** The reader, with the read that was begun already as its first. */
function resumed(reader: Reader, first: ReturnType<Reader["read"]>): Reader {
  // Asked for later: its failure is reported by the reader.
  first.catch(() => undefined);
  let begun: typeof first | undefined = first;
  const read = (): typeof first => {
    const now = begun ?? reader.read();
    begun = undefined;
    return now;
  };
  return { read, cancel: (reason: unknown) => reader.cancel(reason) } as Reader;
}

/**
 * The rest of a stream, as it comes. `over` is called when there is no more of it; its end is passed on when that has resolved. `gone`: it
 * will not be read, even where the server says that of the request only.
 */
export function streamOf(
  { chunks, rest }: Ahead & { readonly rest: Reader },
  over: () => Promise<boolean>,
  gone: AbortSignal,
): ReadableStream {
  let leave = (): void => undefined;
  const ended = (): Promise<boolean> => {
    gone.removeEventListener("abort", leave);
    return over();
  };
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const chunk of chunks) controller.enqueue(chunk);
      leave = () => {
        void rest.cancel(gone.reason).catch(() => undefined);
        void ended();
      };
      if (gone.aborted) leave();
      else gone.addEventListener("abort", leave);
    },
    pull: async (controller) => {
      try {
        const { done, value } = await rest.read();
        if (!done) return controller.enqueue(value);
      } catch (error) {
        await ended();
        throw error;
      }
      if ((await ended()) || gone.aborted) controller.close();
      else controller.error(new Error("The lock was lost while the response was sent."));
    },
    cancel: async (reason) => {
      await rest.cancel(reason).catch(() => undefined);
      await ended();
    },
  });
}

/** Puts a response in the place of the one that is there, without taking over its headers. */
export function replaceResponse(c: Context, response: Response): void {
  c.res = undefined;
  c.res = response;
}

export function responseWith({ status, statusText, headers }: Response, body: Body): Response {
  return new Response(body, { status, statusText, headers });
}

/** With the headers that were there before the handler, such as those of CORS. */
export function responseOf({ status, headers, body }: Answer, before: Headers): Response {
  const all = new Headers(before);
  for (const [name, value] of Object.entries(headers)) all.set(name, value);
  return new Response(body, { status, headers: all });
}

export function joined(chunks: readonly Uint8Array[]): Buffer {
  return Buffer.concat(chunks);
}

/** An error of ours, as Hono's own: with the response that it stands for, unless the app has an error handler that knows better. */
export function withResponse(error: unknown): unknown {
  const { status, headers = {} } = error as { readonly status?: number; readonly headers?: Record<string, string> };
  if (status !== 503) return error;
  return Object.assign(error as Error, { getResponse: () => new Response("Service Unavailable", { status, headers }) });
}
