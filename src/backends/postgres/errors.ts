/** Turns the errors of Postgres and of client libraries into errors that say what happened and what to do. */
import { LockBackendError, messageOf, quote } from "../../contract/errors.ts";
import { OpenTransaction } from "./connection.ts";

interface Known {
  /** SQLSTATEs, or the codes of Node. */
  readonly codes: readonly string[];
  readonly fatal: boolean;
  readonly text: string;
}

const ROLLED_BACK =
  "Postgres rolled the step back, because it waited too long for another transaction or was cancelled. Nothing was changed";

/** A fatal error stays, however often one tries again. */
const KNOWN: readonly Known[] = [
  {
    codes: ["3F000", "42P01", "42883"],
    fatal: true,
    text: "its tables or functions are missing in this database. Create them with `holdfast migrate --url …`, or with `migrate: true`",
  },
  {
    codes: ["42501"],
    fatal: true,
    text: "the database role may not do this. SECURITY.md has the rights that it needs",
  },
  {
    codes: ["28P01", "28000"],
    fatal: true,
    text: "Postgres refused the user name or the password. Check the credentials that the client was given",
  },
  { codes: ["3D000"], fatal: true, text: "there is no database of that name on this server" },
  {
    codes: ["LK003", "LK004", "LK005", "LK006"],
    fatal: true,
    text: "",
  },
  {
    codes: ["2D000"],
    fatal: true,
    text: "the connection was in a transaction that is still open, so nothing was done. Give the locks a pool or a client of their own",
  },
  {
    codes: ["25P02"],
    fatal: false,
    text: "the connection was in a transaction that had failed before, so nothing was done. Give the locks a pool or a client of their own",
  },
  {
    codes: ["53300", "53400"],
    fatal: false,
    text: "Postgres has no free connection. Raise max_connections, or use a pooler",
  },
  {
    codes: ["40P01", "40001", "55P03", "57014"],
    fatal: false,
    text: ROLLED_BACK,
  },
];

const READONLY = "25006";
const STANDBY =
  "this server is a standby, or only lets transactions read. Use the address of the primary, or one that follows it";

/** Wraps an error of the client. `wroteBefore`: the same address once accepted writes, so a standby means a fail-over. */
export function toBackendError(cause: unknown, lock: string, wroteBefore = true): LockBackendError {
  if (cause instanceof LockBackendError) return cause;
  if (cause instanceof OpenTransaction)
    return make(lock, `${cause.message}. Give the locks a pool or a client of their own`, true, cause);
  const code = codeOf(cause);
  if (code === READONLY) return make(lock, STANDBY, !wroteBefore, cause);
  const known = KNOWN.find(({ codes }) => code !== undefined && codes.includes(code));
  if (known !== undefined) return make(lock, known.text === "" ? wordsOf(cause) : known.text, known.fatal, cause);
  if (isRefusal(cause))
    return make(lock, `Postgres refused the step (${wordsOf(cause)}). Nothing was changed`, false, cause);
  return make(
    lock,
    `Postgres gave no answer (${wordsOf(cause)}). It may or may not have been carried out`,
    false,
    cause,
  );
}

/** The server answered with an error, so what it was asked for was not done. Not if it was about the connection: that ended, with or without it. */
export function isRefusal(cause: unknown): boolean {
  const code = codeOf(cause);
  const { severity } = (typeof cause === "object" && cause !== null ? cause : {}) as { severity?: unknown };
  return code?.length === 5 && severity === "ERROR" && !/^08|^57P|^40003/u.test(code);
}

export function codeOf(cause: unknown): string | undefined {
  const { code } = (typeof cause === "object" && cause !== null ? cause : {}) as { code?: unknown };
  return typeof code === "string" ? code : undefined;
}

/** The lock is in use with another limit. */
export function limitConflict(lock: string, inForce: number, asked: number): LockBackendError {
  return make(
    lock,
    `asked for with limit ${asked}, but in use with limit ${inForce}. Give it the same \`limit\` everywhere`,
    true,
  );
}

/** The store answered something that it never does. */
export function unexpected(lock: string): LockBackendError {
  return make(lock, "unexpected reply from Postgres", false);
}

/** Another transaction kept its row locked for longer than a step waits. */
export function stillLocked(lock: string): LockBackendError {
  return make(lock, ROLLED_BACK, false);
}

export function tooLong(lock: string, maxTtlMs: number): LockBackendError {
  const text = `its ttl and lockDelay are longer than \`maxTtl\` (${maxTtlMs} ms), so a quarantine after a fail-over would end before it`;
  return make(lock, `${text}. Shorten them, or raise \`maxTtl\` in all processes`, true);
}

function make(lock: string, text: string, fatal: boolean, cause?: unknown): LockBackendError {
  const start = lock === "" ? "Postgres locks" : `Lock ${quote(lock)}`;
  const options = cause === undefined ? { fatal } : { fatal, cause: withoutSecrets(cause) };
  return new LockBackendError("postgres", lock, `${start}: ${text.replace(/\.$/u, "")}.`, options);
}

/** What happened, in the words of Postgres or of the client library. "All hosts failed" has them one level deeper. */
export function wordsOf(cause: unknown): string {
  const { errors } = (cause instanceof Error ? cause : {}) as { errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0 && messageOf(cause) === "") return wordsOf(errors[0]);
  return messageOf(cause);
}

/**
 * Errors of client libraries may contain the statement with its parameters: claim ids, meta. Only what is known to be harmless is copied,
 * because the next version of a library may keep them elsewhere.
 */
function withoutSecrets(cause: unknown): unknown {
  if (!(cause instanceof Error)) return undefined;
  const clean: Error & { code?: unknown } = new Error(wordsOf(cause));
  clean.name = cause.name;
  clean.stack = `${cause.name}: ${clean.message}`;
  const code = codeOf(cause);
  if (code !== undefined) clean.code = code;
  return clean;
}
