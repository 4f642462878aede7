/** What a call fails with: a status of the server, or a failure on the way. What counts is whether it can have been carried out. */

const STATUS = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** gRPC's own names. `CLOSED`: this client was closed. */
export type EtcdErrorCode = (typeof STATUS)[number] | "CLOSED";

/**
 * A server answers these before it does anything, or instead of it. RESOURCE_EXHAUSTED is not among them: where the database is
 * found to be full while a request is applied, etcd says so after it has carried it out.
 */
const REFUSALS: ReadonlySet<EtcdErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "UNAUTHENTICATED",
]);
/** Said before anything is done: the member has no leader, or is no full member yet. */
const OF_NO_USE = /^etcdserver: (?:no leader|rpc not supported for learner)$/;
const MESSAGE_MAX = 500;

export class EtcdError extends Error {
  readonly code: EtcdErrorCode;
  /** True: the call was certainly not carried out. False: that is unknown. */
  readonly isRefusal: boolean;
  /** True: this member cannot serve now, but another may. */
  readonly isMembers: boolean;

  constructor(code: EtcdErrorCode, message: string, options: ErrorOptions & { readonly unsent?: boolean } = {}) {
    super(`${message} (${code})`, "cause" in options ? { cause: options.cause } : undefined);
    this.name = "EtcdError";
    this.code = code;
    const isOfNoUse = code === "UNAVAILABLE" && OF_NO_USE.test(message);
    this.isRefusal = options.unsent === true || isOfNoUse || code === "CLOSED" || REFUSALS.has(code);
    this.isMembers = isOfNoUse || (options.unsent === true && code === "UNAVAILABLE");
  }
}

/** The error that a server's status means. `message` is percent-encoded, and may be anything. */
export function toError(status: string, message: string): EtcdError {
  const number = /^\d{1,3}$/.test(status) ? Number(status) : 2;
  return new EtcdError(STATUS[number] ?? "UNKNOWN", decode(message).slice(0, MESSAGE_MAX) || "no reason given");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The answer is lost: it is unknown whether the call was carried out. */
export function lost(what: string, cause?: unknown): EtcdError {
  return new EtcdError("UNAVAILABLE", what, { cause });
}

/** It was never sent. */
export function unsent(what: string, cause?: unknown): EtcdError {
  return new EtcdError("UNAVAILABLE", what, { cause, unsent: true });
}

export function hasCode(error: unknown, ...codes: readonly EtcdErrorCode[]): boolean {
  return error instanceof EtcdError && codes.includes(error.code);
}

/** The lease is not known to the cluster: gone for certain. */
export function isLeaseGone(error: unknown): boolean {
  return hasCode(error, "NOT_FOUND") && (error as EtcdError).message.includes("lease not found");
}

/**
 * A token that has expired, or is older than the latest change of users and roles, or none because the cluster wanted none until
 * now: the same call may pass with a new one.
 */
export function isStaleToken(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false;
  return error.code === "UNAUTHENTICATED" || isOutrun(error) || error.message.includes("user name is empty");
}

/** Users or roles were changed after the token was given. That may happen again to the next one, and to none for ever. */
export function isOutrun(error: unknown): boolean {
  return error instanceof EtcdError && error.message.includes("revision of auth store is old");
}
