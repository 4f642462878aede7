/**
 * Keys and channels, as Redisson names them. `{<name>}` is the name alone where it has a brace of its own.
 *
 *   <name>                                   a lock, one hash: a field for each holder, and how often it holds
 *   {<name>}:<field>:rwlock_timeout:<n>      the deadline of a reader
 *   redisson_lock_token:{<name>}             the last token of a fenced lock
 *   redisson_lock__channel:{<name>}          where a release is reported; of a read-write lock redisson_rwlock:{<name>}
 *   {<name>}:holdfast                        the notes of our clients beside it, one hash; <name>::holdfast where it has a brace of its own
 *
 * A field is `<client>:<thread>`, of a writer `<client>:<thread>:write`. Each claim of ours is a client of its own.
 */
import { createHash } from "node:crypto";
import type { Claim } from "../../contract/backend.ts";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Connection } from "../redis/connection.ts";
import { slotOf } from "../redis/keys.ts";
import { errors } from "./errors.ts";
import { isKind, type RedissonKind, type Settings, wrongKind } from "./options.ts";

const NOTES = ":holdfast";
const LONE_SURROGATE = /\p{Surrogate}/u;
const ID_BYTES = 16;

/** What a script does with a lock. */
export type Step = "lock" | "fenced" | "read" | "write";

export interface Keys {
  readonly lock: string;
  readonly notes: string;
  /** What the keys of deadlines start with. */
  readonly start: string;
  readonly channel: string;
  /** Of a fenced lock. */
  readonly token: string | undefined;
}

/** A claim as the scripts know it. */
export interface Place extends Keys {
  readonly step: Step;
  readonly field: string;
  /** Of a reader. */
  readonly deadline: string | undefined;
}

export class Names {
  readonly #prefix: string;
  readonly #kind: Settings["kind"];
  readonly #isCluster: boolean;

  constructor(connection: Connection, { prefix, kind }: Settings) {
    // The library would put it before the whole key, and Redisson has the name inside of some.
    if (connection.keyPrefix !== "")
      throw new ArgumentError("Expected a client without `keyPrefix`: use the option `prefix` of redisson() instead");
    this.#prefix = prefix;
    this.#kind = kind;
    this.#isCluster = connection.topology === "cluster";
  }

  of(name: string): Keys {
    const lock = this.#prefix + name;
    // It has no form of its own in UTF-8: two such names would be one key.
    if (LONE_SURROGATE.test(lock))
      throw errors.refusal(name, "its name has half of a surrogate pair, which a key of Redis cannot hold");
    if (lock.endsWith(NOTES)) throw errors.refusal(name, `names that end with ${NOTES} are those of our notes`);
    const kind = this.#kindOf(name);
    const tagged = lock.includes("{") ? lock : `{${lock}}`;
    // Not those of `x` for the name `{x}`.
    const notes = (tagged === lock ? `${lock}:` : tagged) + NOTES;
    if (this.#isCluster && slotOf(notes) !== slotOf(lock))
      throw errors.refusal(name, "its braces put its keys into different slots of the cluster, also for Redisson");
    return {
      lock,
      notes,
      start: tagged,
      channel: `${kind === "read-write" ? "redisson_rwlock" : "redisson_lock__channel"}:${tagged}`,
      token: kind === "fenced" ? `redisson_lock_token:${tagged}` : undefined,
    };
  }

  at({ name, id, mode, limit }: Claim): Place {
    const kind = this.#kindOf(name);
    if (limit !== 1)
      throw errors.refusal(name, "a lock of Redisson knows no limit. Use redis:// without layout=redisson");
    if (mode === "shared" && kind !== "read-write")
      throw errors.refusal(
        name,
        'only an RReadWriteLock of Redisson has readers: use `kind: "read-write"`, here and in Java',
      );
    const keys = this.of(name);
    const step = kind !== "read-write" ? kind : mode === "shared" ? "read" : "write";
    const client = fieldOf(id);
    const field = step === "write" ? `${client}:write` : client;
    return { ...keys, step, field, deadline: step === "read" ? `${keys.start}:${field}:rwlock_timeout:1` : undefined };
  }

  /** The lock's name; `undefined`: the key is none of these locks. */
  nameOf(key: string): string | undefined {
    return key.startsWith(this.#prefix) && !key.endsWith(NOTES) ? key.slice(this.#prefix.length) : undefined;
  }

  /** For SCAN: the locks whose names start so, and all notes. */
  glob(start: string): string {
    return `${globEscape(this.#prefix + start)}*`;
  }

  notesGlob(): string {
    return `*${NOTES}`;
  }

  #kindOf(name: string): RedissonKind {
    const kind: unknown = typeof this.#kind === "function" ? this.#kind(name) : this.#kind;
    if (!isKind(kind)) throw errors.refusal(name, `its \`kind\` should be ${wrongKind(kind)}`);
    return kind;
  }
}

/** `<uuid>:<thread>`, as Java has it: the 128 bits of the claim's id, so that a process which has the claim finds its lease. */
export function fieldOf(id: string): string {
  const bytes = Buffer.from(id, "base64url");
  const isWhole = bytes.length === ID_BYTES && bytes.toString("base64url") === id;
  const hex = (isWhole ? bytes : createHash("sha256").update(id).digest()).toString("hex", 0, ID_BYTES);
  return `${hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/u, "$1-$2-$3-$4-$5")}:1`;
}

function globEscape(text: string): string {
  return text.replace(/[*?[\]\\]/gu, String.raw`\$&`);
}
