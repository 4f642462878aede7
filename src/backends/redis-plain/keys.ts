/**
 * Keys.
 *
 *   <prefix><name>                 a lock, one string, as other libraries have it
 *   {<prefix><name>}:holdfast      the notes of our clients beside it, one hash in the same slot of a cluster
 *   <prefix><name>::holdfast       the same, where the key has a hash tag of its own
 *   {<n>}<prefix><name>|:holdfast  the same, where the key has odd braces; n leads to its slot
 *
 * The character before `:holdfast` tells them apart, so that no two locks have the same notes: not `x` and `{x}` either.
 */
import { slotOf } from "../redis/keys.ts";
import { errors } from "./errors.ts";

const NOTES = ":holdfast";
/** A tag for a key with odd braces is looked for among so many; about one in 16,384 fits. */
const TAGS_MAX = 1_000_000;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** The two keys of a lock. */
export interface Keys {
  readonly lock: string;
  readonly notes: string;
}

export class Names {
  readonly #prefix: string;
  /** What the client library puts before each key. */
  readonly #before: string;

  constructor(prefix: string, before: string) {
    this.#prefix = prefix;
    this.#before = before;
  }

  of(name: string): Keys {
    const lock = this.#prefix + name;
    // It has no form of its own in UTF-8: two such names would be one key.
    if (LONE_SURROGATE.test(lock)) {
      throw errors.refusal(name, "its name has half of a surrogate pair, which a key of Redis cannot hold");
    }
    return { lock, notes: this.#notes(lock, name) };
  }

  /** The key as Redis knows it. */
  full(key: string): string {
    return this.#before + key;
  }

  /** The lock's name; `undefined`: the key, as Redis knows it, is none of these locks. */
  nameOf(key: string): string | undefined {
    const start = this.#before + this.#prefix;
    return key.startsWith(start) && !key.endsWith(NOTES) ? key.slice(start.length) : undefined;
  }

  /** The key as the client library is given it. */
  bare(key: string): string {
    return key.slice(this.#before.length);
  }

  /** For SCAN: the locks whose names start so, and all notes. */
  glob(start: string): string {
    return `${globEscape(this.#before + this.#prefix + start)}*`;
  }

  notesGlob(): string {
    return `${globEscape(this.#before)}*${NOTES}`;
  }

  #notes(lock: string, name: string): string {
    const full = this.#before + lock;
    const slot = slotOf(full);
    const isThere = (notes: string): boolean => slotOf(this.#before + notes) === slot;
    const usual = hasTag(full) ? `${lock}:${NOTES}` : `{${full}}${NOTES}`;
    if (isThere(usual)) return usual;
    for (let tag = 0; tag < TAGS_MAX; tag++) {
      const notes = `{${tag}}${lock}|${NOTES}`;
      if (isThere(notes)) return notes;
    }
    throw errors.refusal(name, "its braces leave no key beside it in the same slot. Choose another name or prefix");
  }
}

function hasTag(key: string): boolean {
  return /^[^{]*\{[^}]+\}/u.test(key);
}

function globEscape(text: string): string {
  return text.replace(/[*?[\]\\]/gu, String.raw`\$&`);
}
