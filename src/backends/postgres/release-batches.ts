/**
 * Releases in few statements when there are many at once, as when a process ends: thousands that wait one by one for a connection of a small pool
 * would get their answers later than their holders can wait. One release goes at once, and alone.
 */
import type { Claim, Released } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { stillLocked, unexpected } from "./errors.ts";
import { CALL_RELEASE, CALL_RELEASE_MANY } from "./generated/sql.ts";
import { toArray, toBytes, toBytesArray } from "./records.ts";

/** So many statements may be under way before releases are gathered: as many as the connections of a usual pool, and some that wait for one. */
const LANES = 8;
/** One statement for so many claims: some 20 ms, in which no other step on their locks can be made. */
const PORTION = 200;

const WORDS: Readonly<Record<string, Released | undefined>> = { h: "held", q: "queued", a: "absent" };

interface Asked {
  readonly claim: Claim;
  readonly resolve: (was: Released) => void;
  readonly reject: (error: unknown) => void;
}

export class ReleaseBatches {
  readonly #connection: Connection;
  readonly #quarantine: string;
  #under = 0;
  #gathered: Asked[] = [];

  constructor(connection: Connection, quarantineMs: number) {
    this.#connection = connection;
    this.#quarantine = String(quarantineMs);
  }

  release(claim: Claim): Promise<Released> {
    if (this.#under < LANES) return this.#inLane(() => this.#one(claim));
    return new Promise((resolve, reject) => this.#gathered.push({ claim, resolve, reject }));
  }

  async #inLane<T>(send: () => Promise<T>): Promise<T> {
    this.#under++;
    try {
      return await send();
    } finally {
      this.#under--;
      this.#next();
    }
  }

  #next(): void {
    if (this.#gathered.length === 0) return;
    const portion = this.#gathered.splice(0, PORTION);
    void this.#inLane(() => this.#many(portion));
  }

  async #one(claim: Claim): Promise<Released> {
    const values = [toBytes(claim.name), claim.id, minHoldText(claim), this.#quarantine];
    const { answers } = await this.#connection.ask(CALL_RELEASE, values);
    return toReleased(claim.name, answers[0]);
  }

  /** Never rejects: each release has its own answer. */
  async #many(portion: readonly Asked[]): Promise<void> {
    // Rows that are locked in that instant are waited for in a statement of their own, so that the others need not wait.
    const passed = await this.#send(portion, false);
    if (passed.length === 0) return;
    for (const { claim, reject } of await this.#send(passed, true)) reject(stillLocked(claim.name));
  }

  /** Returns those that were passed over. */
  async #send(portion: readonly Asked[], wait: boolean): Promise<readonly Asked[]> {
    const claims = portion.map(({ claim }) => claim);
    const values = [
      toBytesArray(claims.map(({ name }) => name)),
      toArray(claims.map(({ id }) => id)),
      toArray(claims.map(minHoldText)),
      this.#quarantine,
      String(wait),
    ];
    try {
      const { answers } = await this.#connection.ask(CALL_RELEASE_MANY, values);
      const letters = answers[0] ?? "";
      if (letters.length !== portion.length) throw unexpected("");
      return portion.filter(({ resolve }, at) => {
        const was = WORDS[letters[at] as string];
        if (was !== undefined) resolve(was);
        return was === undefined;
      });
    } catch (error) {
      for (const { reject } of portion) reject(error);
      return [];
    }
  }
}

/** -1: a process that resumes another's lease need not know its terms, so those of the store count. */
export function minHoldText({ minHoldMs, resumes }: Claim): string {
  return resumes === true ? "-1" : String(minHoldMs);
}

export function toReleased(name: string, answer: unknown): Released {
  if (answer === "held" || answer === "queued" || answer === "absent") return answer;
  throw unexpected(name);
}
