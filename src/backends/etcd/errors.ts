/** The client's errors as the core's: unknown, or fatal because a retry cannot help. */
import { LockBackendError, LockError, quote } from "../../contract/errors.ts";
import { EtcdError, type EtcdErrorCode, hasCode, isOutrun } from "./client/errors.ts";

/** A retry cannot help against these. */
const FATAL: readonly EtcdErrorCode[] = [
  "INVALID_ARGUMENT",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
  "UNIMPLEMENTED",
  "FAILED_PRECONDITION",
  "DATA_LOSS",
  "CLOSED",
];

const ADVICE: Partial<Record<EtcdErrorCode, string>> = {
  PERMISSION_DENIED: "grant the role readwrite on the prefix of the locks (see SECURITY.md)",
  UNAUTHENTICATED: "set the user and the password",
  INVALID_ARGUMENT: "see the user, the password and the options",
  RESOURCE_EXHAUSTED: "the cluster is full or takes no more requests: see `holdfast doctor`",
  CLOSED: "the backend is closed",
};

/** Wraps an error with the lock and the endpoints. Errors of ours pass unchanged. */
export function toLockError(name: string, endpoints: string, error: unknown): unknown {
  if (error instanceof LockError || error instanceof TypeError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const fatal = hasCode(error, ...FATAL) && !isOutrun(error);
  const advice = error instanceof EtcdError && !isOutrun(error) ? ADVICE[error.code] : undefined;
  const isUnknown = error instanceof EtcdError && !error.isRefusal;
  const unknown = isUnknown ? "; it is unknown whether the request was carried out" : "";
  const message = `Lock ${quote(name)}: etcd at ${endpoints}: ${text}${unknown}${advice === undefined ? "" : `: ${advice}`}.`;
  return new LockBackendError("etcd", name, message, { cause: error, fatal });
}
