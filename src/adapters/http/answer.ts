/** What the adapters answer themselves, independent of the framework: problems as RFC 9457 has them. No name of a lock is in them. */
import { toMs, type Duration } from "../../contract/duration.ts";

/** An answer that any framework can send. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const PROBLEM = { "content-type": "application/problem+json", "cache-control": "no-store" } as const;

/** Whole seconds, and never 0: that would ask for a loop without a pause. */
export function toSeconds(retryAfter: Duration | undefined): number {
  return Math.max(1, Math.ceil(toMs(retryAfter ?? "1s", "retryAfter") / 1000));
}

export function busy(status: number, seconds: number, quarantineMs: number | undefined): Answer {
  const after = Math.max(seconds, Math.ceil((quarantineMs ?? 0) / 1000));
  return problem(status, "Busy", "Another request works on this. Try again later.", "ERR_LOCK_TIMEOUT", after);
}

export function keyMissing(): Answer {
  const detail =
    "This request needs an Idempotency-Key: 1 to 255 printable characters, a new one for each new request.";
  return problem(400, "An idempotency key is required", detail, "ERR_IDEMPOTENCY_KEY");
}

export function keyReused(): Answer {
  const detail =
    "This idempotency key was used for another request: the method, the path, the type or the body was not the same.";
  return problem(422, "Idempotency key used again", detail, "ERR_IDEMPOTENCY_KEY_REUSED");
}

export function notReplayable(): Answer {
  const detail = "The request with this idempotency key was done, but its response was not kept. It is not done again.";
  return problem(409, "Done before", detail, "ERR_LOCK_OUTCOME");
}

export function lost(seconds: number): Answer {
  const detail = "The lock was lost while the request was worked on. Whether it was completed is not known.";
  return problem(503, "Lock lost", detail, "ERR_LOCK_LOST", seconds);
}

function problem(status: number, title: string, detail: string, code: string, retryAfter?: number): Answer {
  const body = JSON.stringify({ type: "about:blank", title, status, detail, code });
  const headers = retryAfter === undefined ? PROBLEM : { ...PROBLEM, "retry-after": String(retryAfter) };
  return { status, headers, body };
}

/** As `instanceof` cannot: the locks may be of another copy of the library. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && (error as { readonly code?: unknown }).code === code;
}

/**
 * The store could not be asked, or the locks are closed, before anything was done. As the app's error handler gets it: some frameworks send its
 * message, so that names no lock and no host. The cause does, for the log.
 */
export function unavailable(error: unknown, seconds: number): unknown {
  const code = ["ERR_LOCK_BACKEND", "ERR_LOCK_CLOSED"].find((one) => hasCode(error, one));
  // A fatal one says what must be changed, and trying again is of no use.
  if (code === undefined || (error as { readonly fatal?: boolean }).fatal === true) return error;
  const shown = new Error("The locks could not be asked, and nothing was done. Try again later.", { cause: error });
  return Object.assign(shown, { code, headers: { "retry-after": String(seconds) } });
}

/** The store could not be asked, or the locks are closed: frameworks answer with the status that the error has, where they look at it. */
export function withStatus(error: unknown): unknown {
  if (!["ERR_LOCK_BACKEND", "ERR_LOCK_CLOSED", "ERR_LOCK_LOST"].some((code) => hasCode(error, code))) return error;
  return Object.assign(error as Error, { status: 503, statusCode: 503 });
}
