/** The scripts on a clock of the test's own, which stands in a key of the server: an undeclared one, which only a test may use. */
import type { Redis } from "ioredis";
import { expect } from "vitest";
import * as generated from "../../../src/backends/redis/generated/scripts.ts";

export class Clocked {
  readonly #client: Redis;
  readonly #clock: string;
  readonly #shas: Map<generated.Script, string> = new Map();

  constructor(client: Redis, clock: string) {
    this.#client = client;
    this.#clock = clock;
  }

  async load(): Promise<void> {
    for (const script of Object.values(generated) as generated.Script[]) {
      const source = script.source.replaceAll(
        /(?:redis\.)?call\('TIME'\)/g,
        `redis.call('HMGET','${this.#clock}','s','u')`,
      );
      expect(source).not.toContain("'TIME'");
      this.#shas.set(script, (await this.#client.script("LOAD", source)) as string);
    }
  }

  run(script: generated.Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#client.evalsha(this.#shas.get(script)!, keys.length, ...keys, ...args);
  }

  /** As TIME says it: seconds, and what is left in microseconds. */
  set(seconds: number, micros: number): void {
    void this.#client.hset(this.#clock, "s", String(seconds), "u", String(micros));
  }
}
