/** What the errors of Postgres mean here: unknown, or fatal. */
import { LockBackendError, quote } from "../../contract/errors.ts";
import { codeOf, toBackendError as fromPostgres } from "../postgres/errors.ts";

const FATAL: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "3F000":
      "its table is missing in this database. Create it as ShedLock's documentation says, or say `migrate: true`",
    "42P01":
      "its table is missing in this database. Create it as ShedLock's documentation says, or say `migrate: true`",
    "42703": "its table has not the columns of ShedLock's",
    "42501": "the database role may not do this. It needs select, insert and update on the table",
    "22001": "its name or its holder is too long for the table",
    "22021": "its name has characters that this database cannot keep",
    "22P05": "its name has characters that this database cannot keep",
  }),
);

export function toBackendError(cause: unknown, lock: string, wroteBefore: boolean): LockBackendError {
  if (cause instanceof LockBackendError) return cause;
  const text = FATAL.get(codeOf(cause) ?? "");
  if (text !== undefined) return refusal(lock, text);
  const { message, fatal, cause: clean } = fromPostgres(cause, lock, wroteBefore);
  return new LockBackendError("shedlock", lock, message, { fatal, cause: clean });
}

/** An error that no retry helps against. */
export function refusal(lock: string, text: string): LockBackendError {
  const start = lock === "" ? "ShedLock's table" : `Lock ${quote(lock)}`;
  return new LockBackendError("shedlock", lock, `${start}: ${text}.`, { fatal: true });
}

export function unexpected(lock: string): LockBackendError {
  return new LockBackendError("shedlock", lock, `Lock ${quote(lock)}: unexpected reply from Postgres.`);
}
