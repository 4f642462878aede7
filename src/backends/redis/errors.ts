/** Turns the errors of Redis and of client libraries into errors that say what happened and what to do. */
import { LockBackendError, messageOf, quote } from "../../contract/errors.ts";
import { WORD } from "./wire.ts";

interface Known {
  readonly pattern: RegExp;
  readonly fatal: boolean;
  readonly text: string;
}

/** The first match counts. A fatal error stays, however often one tries again. Before Redis 7 a script's error has its code in the middle. */
const KNOWN: readonly Known[] = [
  {
    pattern: new RegExp(`(^|-)WRONGTYPE|${WORD.foreign}`, "u"),
    fatal: true,
    text: "its key in Redis holds something else, which was left untouched. Choose another `prefix`, or remove that key if it is not needed",
  },
  {
    pattern: /^NOAUTH/u,
    fatal: true,
    text: "Redis wants a password, and got none. Give it to the client; in a URL it is redis://:password@host, and that of sentinels is ?sentinelPassword=",
  },
  {
    pattern: /DB index is out of range/u,
    fatal: true,
    text: "there is no database of that number. Redis has 16, unless its `databases` says otherwise",
  },
  {
    pattern: /^WRONGPASS|invalid (username-)?password|AUTH failed|without any password configured/iu,
    fatal: true,
    text: "Redis refused the password or user name. Check the credentials that the client was given",
  },
  {
    pattern: /^NOPERM|no permissions to|user executing the script can't/iu,
    fatal: true,
    text: "the Redis user may not do this. SECURITY.md has the rights that it needs on its keys and channels",
  },
  {
    pattern: /^MOVED|^ASK |cluster support enabled|CROSSSLOT/u,
    fatal: true,
    text: "this is a node of a Redis Cluster. Use a Cluster client, or a redis+cluster:// URL",
  },
  {
    pattern: /No such master with that name/u,
    fatal: true,
    text: "the sentinels watch no service of that name. Ask one which it watches: SENTINEL MASTERS",
  },
  {
    pattern: /unknown command.{0,3}sentinel/iu,
    fatal: true,
    text: "what answers there is no sentinel, but a Redis that holds data. Use redis:// for a single server, or the addresses of the sentinels",
  },
  {
    pattern: /cluster support disabled/u,
    fatal: true,
    text: "this is not a Redis Cluster. Use redis:// for a single server, or a client that is not a Cluster client",
  },
  {
    pattern: /unknown command.{0,40}eval|EVALSHA.{0,40}unknown|unknown command.{0,40}script/isu,
    fatal: true,
    text: "this server runs no scripts: it is a sentinel, which only knows where Redis is (use a Sentinel client, or redis+sentinel://host:port/service), or a Redis whose EVAL was renamed",
  },
  {
    pattern: /in subscriber mode|\(P\|S\)SUBSCRIBE|allowed in this context/u,
    fatal: true,
    text: "the client is in subscriber mode, so it cannot run commands. Give the locks a connection of their own: client.duplicate()",
  },
  {
    pattern: /(^|-)NOREPLICAS/u,
    fatal: false,
    text: "Redis accepts no writes, because too few replicas are connected (min-replicas-to-write). Check the replicas",
  },
  {
    pattern: /(^|-)OOM/u,
    fatal: false,
    text: "Redis is full (maxmemory) and accepts no new data. Give it more memory, or a database of its own for locks",
  },
];

/** What is said of sentinels that are wrong, or not yet right. */
export const NO_PRIMARY =
  "the sentinels name a primary that says that it is a replica: a fail-over is under way, or they are wrong";

const LIMIT_ERROR = new RegExp(String.raw`${WORD.limit} (\d+)`, "u");
const READONLY =
  "this is a replica, which accepts no writes. Use its primary's address, or a Sentinel or Cluster client that follows the primary";

/** Wraps an error of the client. `wroteBefore`: the same endpoint once accepted writes, so READONLY means a fail-over. */
export function toBackendError(cause: unknown, lock: string, wroteBefore = true): LockBackendError {
  if (cause instanceof LockBackendError) return cause;
  const message = wordsOf(cause);
  const limit = LIMIT_ERROR.exec(message);
  if (limit) return new LimitConflict(lock, Number(limit[1]));
  if (/READONLY/u.test(message)) return make(lock, READONLY, !wroteBefore, cause);
  const known = KNOWN.find(({ pattern }) => pattern.test(message));
  if (known) return make(lock, known.text, known.fatal, cause);
  return make(lock, `Redis gave no answer (${message}). It may or may not have been carried out`, false, cause);
}

/** The server does not know the script by its SHA1: it was never sent, or the server restarted. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** A slot is half moved, and the keys of this call are on both sides. Each key alone can be asked for. */
export function isTryAgain(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("TRYAGAIN");
}

/** The lock is in use with another limit. The caller fills in the one that it asked for. */
export class LimitConflict extends LockBackendError {
  readonly inForce: number;

  constructor(lock: string, inForce: number, asked?: number) {
    const ours = asked === undefined ? "another" : `limit ${asked}`;
    super(
      "redis",
      lock,
      `Lock ${quote(lock)}: asked for with ${ours}, but in use with limit ${inForce}. Give it the same \`limit\` everywhere.`,
      {
        fatal: true,
      },
    );
    this.inForce = inForce;
    this.name = "LockBackendError";
  }
}

function make(lock: string, text: string, fatal: boolean, cause: unknown): LockBackendError {
  const start = lock === "" ? "Redis locks" : `Lock ${quote(lock)}`;
  return new LockBackendError("redis", lock, `${start}: ${text}.`, { fatal, cause: withoutSecrets(cause) });
}

/** What client libraries put before the reason of a sentinel's failure: what they try next, and where in their code it was. */
const SENTINEL_PREFIX =
  /^(?:All sentinels are unreachable\b.*? Last error: |obser?ve client error: |Error: |Sentinel Client \([^)]*\): )+/u;

/** What happened, in the words of Redis or of the client library. Redis repeats the arguments of a command that it does not know: they are cut. */
export function wordsOf(cause: unknown): string {
  // The cause of "all nodes failed" is the error of the last node.
  const { lastNodeError } = (cause instanceof Error ? cause : {}) as { lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return wordsOf(lastNodeError);
  return messageOf(cause)
    .replace(/,? with args beginning with:.*/su, "")
    .replace(SENTINEL_PREFIX, "");
}

/**
 * Errors of client libraries contain the failed command with its arguments: passwords, claim ids, meta. Only what is known to be harmless is
 * copied, because the next version of a library may keep them elsewhere.
 */
function withoutSecrets(cause: unknown): unknown {
  if (!(cause instanceof Error)) return undefined;
  const clean: Error & { code?: unknown } = new Error(wordsOf(cause));
  clean.name = cause.name;
  clean.stack = `${cause.name}: ${clean.message}`;
  const { code } = cause as { code?: unknown };
  if (typeof code === "string") clean.code = code;
  return clean;
}
