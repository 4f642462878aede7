/** What the errors of Redis mean to a foreign layout: unknown, or fatal. Each layout has its own name and words for them. */
import { LockBackendError, quote } from "../../../contract/errors.ts";
import { toBackendError as fromRedis } from "../errors.ts";

export interface LayoutErrors {
  toBackendError(cause: unknown, lock: string, wroteBefore?: boolean): LockBackendError;
  /** An error that no retry helps against. */
  refusal(lock: string, text: string): LockBackendError;
  /** Neither yes nor no. */
  unknown(lock: string, text: string): LockBackendError;
  unexpected(lock: string): LockBackendError;
}

/** `locks`: what they are called where no name is known. `wrongType`: what to say of a key of another type. */
export function layoutErrors(backend: string, locks: string, wrongType: string): LayoutErrors {
  const refusal = (lock: string, text: string): LockBackendError => {
    const start = lock === "" ? locks : `Lock ${quote(lock)}`;
    return new LockBackendError(backend, lock, `${start}: ${text}.`, { fatal: true });
  };
  const unknown = (lock: string, text: string): LockBackendError =>
    new LockBackendError(backend, lock, `Lock ${quote(lock)}: ${text}.`);
  return {
    refusal,
    unknown,
    unexpected: (lock) => unknown(lock, "unexpected reply from Redis"),
    toBackendError: (cause, lock, wroteBefore = true) => {
      if (cause instanceof LockBackendError && cause.backend === backend) return cause;
      const text = cause instanceof Error ? cause.message : "";
      if (/(^|-)WRONGTYPE/u.test(text)) return refusal(lock, wrongType);
      if (/HOLDFAST /u.test(text)) return refusal(lock, text.replace(/^.*HOLDFAST /u, ""));
      const { message, fatal, cause: clean } = fromRedis(cause, lock, wroteBefore);
      return new LockBackendError(backend, lock, message, { fatal, cause: clean });
    },
  };
}
