/** The client's errors as the core's: unknown, or fatal because a retry cannot help. */
import { LockBackendError, LockError, quote } from "../../contract/errors.ts";
import { hasCode, ZooKeeperError, type ZooKeeperErrorCode } from "./client/errors.ts";

/** A retry cannot help against these. */
const FATAL: readonly ZooKeeperErrorCode[] = [
  "NOAUTH",
  "AUTHFAILED",
  "INVALIDACL",
  "BADARGUMENTS",
  "UNIMPLEMENTED",
  "NOCHILDRENFOREPHEMERALS",
  "SESSIONCLOSEDREQUIRESASLAUTH",
  "CLOSED",
];

const ADVICE: Partial<Record<ZooKeeperErrorCode, string>> = {
  CONNECTIONLOSS: "No answer, so it is unknown whether the request was carried out",
  NOAUTH: "The node's ACL forbids it: set `auth`",
  AUTHFAILED: "The ensemble refused the user or the password",
  NOCHILDRENFOREPHEMERALS: "The lock's path is below an ephemeral node, which cannot have children",
  SESSIONEXPIRED: "The ensemble ended the session; a new one is being opened",
  SESSIONMOVED: "Another connection took the session over",
  CLOSED: "The backend is closed",
};

/** Wraps an error with the lock and the servers. Errors of ours pass unchanged. */
export function toLockError(name: string, servers: string, error: unknown): unknown {
  if (error instanceof LockError || error instanceof TypeError) return error;
  const code = error instanceof ZooKeeperError ? error.code : undefined;
  const advice = (code && ADVICE[code]) ?? (error instanceof Error ? error.message : String(error));
  const reason = error instanceof ZooKeeperError && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  const message = `Lock ${quote(name)}: ZooKeeper at ${servers}: ${code === undefined ? "" : `${code}: `}${advice}${reason}.`;
  return new LockBackendError("zookeeper", name, message, { cause: error, fatal: hasCode(error, ...FATAL) });
}
