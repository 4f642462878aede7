/** What the errors of Redis mean here: unknown, or fatal. */
import { LockBackendError, quote } from "../../contract/errors.ts";
import { toBackendError as fromRedis } from "../redis/errors.ts";

const BACKEND = "redis-plain";

export function toBackendError(cause: unknown, lock: string, wroteBefore = true): LockBackendError {
  if (cause instanceof LockBackendError && cause.backend === BACKEND) return cause;
  const text = cause instanceof Error ? cause.message : "";
  if (/(^|-)WRONGTYPE/u.test(text)) {
    return refusal(
      lock,
      "its key holds something that is no string, and was left untouched: another program uses it. Choose another name or `prefix`, or `layout=redisson` if the key is a hash of Redisson",
    );
  }
  if (/HOLDFAST /u.test(text)) return refusal(lock, text.replace(/^.*HOLDFAST /u, ""));
  const { message, fatal, cause: clean } = fromRedis(cause, lock, wroteBefore);
  return new LockBackendError(BACKEND, lock, message, { fatal, cause: clean });
}

/** An error that no retry helps against. */
export function refusal(lock: string, text: string): LockBackendError {
  const start = lock === "" ? "Plain locks in Redis" : `Lock ${quote(lock)}`;
  return new LockBackendError(BACKEND, lock, `${start}: ${text}.`, { fatal: true });
}

/** Neither yes nor no. */
export function unknown(lock: string, text: string): LockBackendError {
  return new LockBackendError(BACKEND, lock, `Lock ${quote(lock)}: ${text}.`);
}

export function unexpected(lock: string): LockBackendError {
  return unknown(lock, "unexpected reply from Redis");
}
