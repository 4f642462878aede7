/** Everything that is read from Redis, fed with random and mutated bytes: never a belief, never a throw that escapes, in bounded time. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import type { Connection } from "../../../src/backends/redis/connection.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { toForcedLoss, toForced, toHolding, toWaiting } from "../../../src/backends/redis/records.ts";
import { Renewals } from "../../../src/backends/redis/renewals.ts";
import {
  isBusy,
  toCount,
  toLearned,
  toRefused,
  toReleased,
  toRun,
  toVote,
} from "../../../src/backends/redis/replies.ts";
import { LocalClaims } from "../../../src/backends/redis/local-claims.ts";
import { readMessage } from "../../../src/backends/redis/messages.ts";
import { systemClock } from "../../../src/contract/clock.ts";
import { claimOf, Clients, granted, rivalOf } from "./lab.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? 20_261_115);
const RUNS = Number(process.env["FUZZ_RUNS"] ?? 3000);
const MAX = 9_007_199_250_000_000n;

const TERMS = '.x 000000060000 000063 000003600000 1 60000 0 10000 0 holdfast:inbox:abc ["host:1",{"why":"test"}]';
const RECORD = `1790000060000 1790000000000 1790000000000000 ${TERMS}`;
const FORCE = '1790000000000 abcdefghijklmnopqrstuv {"by":"ops","reason":"stuck"}';
const GRANT = "granted abcdefgh:1790000000000000+000063.0123456789abcdef0123";
const SAMPLES = [
  RECORD,
  FORCE,
  GRANT,
  `${GRANT},${GRANT.slice(8)}`,
  "forced abcdefgh!.0123456789abcdef0123",
  "1790000000000000+000063",
  "=1790000000000000 0@0123456789ab",
  "1790000000000 3",
  `gone ${FORCE}`,
  "!OOM command not allowed",
];

/** Random text, a sample, or a sample with some of its bytes changed, doubled or cut. */
const bytes: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.constantFrom(...SAMPLES),
  fc
    .tuple(
      fc.constantFrom(...SAMPLES),
      fc.array(
        fc.tuple(fc.nat(200), fc.constantFrom("", "0", "9", " ", "-", ",", ":", "\u0000", "~", "99999999999999999999")),
        {
          minLength: 1,
          maxLength: 4,
        },
      ),
    )
    .map(([sample, changes]) =>
      changes.reduce((text, [at, put]) => {
        const place = at % (text.length + 1);
        return text.slice(0, place) + put + text.slice(place + 1);
      }, sample),
    ),
);
const scalar = fc.oneof(bytes, fc.integer(), fc.double(), fc.constant(null), fc.constant(undefined), fc.boolean());
const reply = fc.oneof(scalar, fc.array(fc.oneof(scalar, fc.array(scalar, { maxLength: 3 })), { maxLength: 6 }));

function check<T>(arbitrary: fc.Arbitrary<T>, property: (value: T) => void): void {
  fc.assert(fc.property(arbitrary, property), { seed: SEED, numRuns: RUNS });
}

/** What an answer that is none comes to: an error of ours, and nothing else. */
function quietly<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    expect(error).toBeInstanceOf(LockBackendError);
    return undefined;
  }
}

describe("parsers", () => {
  test("S179: replies: a fence that is believed is one that a store of ours can give", () => {
    check(reply, (value) => {
      const run = toRun(value);
      if (run !== undefined) {
        expect(value).toMatch(/^\d{1,16}\+\d{1,6}$/u);
        expect(run.fence > 0n && run.fence <= MAX && run.run >= 1 && run.run <= 1_000_000).toBe(true);
      }
      const learned = toLearned(value);
      if (learned !== undefined) expect(learned.last).toBeLessThanOrEqual(Number(MAX));
      const refusal = quietly(() => toRefused("lock", value));
      if (refusal !== undefined) {
        expect(refusal.refused.granted).toBe(false);
        expect(refusal.refused.position === undefined).toBe(refusal.learned === undefined);
        expect(Number.isFinite(refusal.wallMs)).toBe(true);
      }
      const released = quietly(() => toReleased("lock", value));
      if (released !== undefined) expect([0, 1, 2, 4, 5, 6]).toContain(toCount(value));
      isBusy(value);
    });
  });

  test("S175, S179: a fence of 0 and one above the maximum are no grant", () => {
    for (const fence of ["0", "0000000000000000", "9007199254740993", "9999999999999999", "18446744073709551615"]) {
      expect(toRun(`${fence}+000000`)).toBeUndefined();
      expect(() => toVote("lock", ["low", "1790000000000", fence])).toThrow(LockBackendError);
      expect(
        toHolding("lock", RECORD.replace(/ 1790000000000000 /u, ` ${fence.padStart(16, "0")} `), 0),
      ).toBeUndefined();
    }
  });

  test("S179: votes: only what says yes in every character is a vote", () => {
    check(reply, (value) => {
      const vote = quietly(() => toVote("lock", value));
      if (vote?.vote === "granted") expect(value).toMatch(/^\d{13}(?: \d+)?$/u);
      if (vote?.vote === "low" || vote?.vote === "held") expect(vote.fence <= MAX).toBe(true);
    });
  });

  test("S177, S179: records: holders, waiters and reasons are cut, and what is no record is none", () => {
    check(bytes, (text) => {
      for (const shown of [toHolding("lock", text, 0), toWaiting("lock", text, 0)?.waiter]) {
        if (shown === undefined) continue;
        expect(shown.holder.length).toBeLessThanOrEqual(200);
        expect(JSON.stringify(shown.meta).length).toBeLessThan(20_000);
      }
      const forced = toForced("lock", "1790000000000000", text, 0);
      if (forced !== undefined) expect(forced.reason.length).toBeLessThanOrEqual(1000);
      toForcedLoss(text);
    });
    const huge = "x".repeat(5_000_000);
    // The lock is held, though it is unknown by which claim: hidden, it would look free.
    expect(toHolding("lock", RECORD + huge, 0)).toMatchObject({ holder: "unknown", meta: {} });
    expect(toForced("lock", "5", FORCE + huge, 0)).toMatchObject({ by: "unknown" });
    const long = JSON.stringify(["h".repeat(9000), { why: "w".repeat(9000), more: "m" }]);
    const holding = toHolding("lock", RECORD.replace(/\[.*$/u, long), 0);
    expect(holding?.holder).toHaveLength(200);
    expect(holding?.meta).toEqual({});
    expect(toForced("lock", "5", FORCE.replace("stuck", "s".repeat(9000)), 0)?.reason).toHaveLength(1000);
  });

  test("S171: messages: whatever comes in, no claim is found without its seal, and no message tells more than 64 grants", () => {
    const claims = new LocalClaims(systemClock, () => []);
    const claim = claimOf({ id: "abcdefghijklmnopqrstuv" });
    claims.add(claim, 0);
    check(bytes, (text) => {
      const { grants, forced } = readMessage(text);
      for (const entry of forced === undefined ? grants : [...grants, forced])
        expect(claims.find(entry)).toBeUndefined();
      for (const { news } of grants) expect(news.fences.fence <= MAX).toBe(true);
    });
    const { grants } = readMessage(`granted ${Array.from({ length: 100 }, () => GRANT.slice(8, 60)).join(",")}`);
    expect(grants.length).toBeLessThanOrEqual(64);
    expect(readMessage(`granted ${"a:1+000000.,".repeat(1_000_000)}`).grants).toEqual([]);
  });

  test("S179: renewals: only a yes is a yes, and only what the script says of a claim that is gone is a loss", async () => {
    const claims = [claimOf(), claimOf()];
    const settings = toSettings({});
    await fc.assert(
      fc.asyncProperty(reply, fc.boolean(), async (value, asksWho) => {
        const connection = { topology: "standalone", evalsha: () => Promise.resolve(value) } as unknown as Connection;
        const renewals = new Renewals(connection, namesOf("holdfast", false), settings, undefined);
        renewals.asksWho = asksWho;
        const answers = await renewals.renew(claims);
        expect(answers).toHaveLength(2);
        for (const [at, { held }] of answers.entries()) {
          const own: unknown = Array.isArray(value) ? value[at] : value;
          // A quorum's member says who it is, where all were renewed.
          const named = asksWho && typeof value === "string" && /^[0-9a-f]{0,20}$/u.test(value);
          if (held === true && !named) expect([1, "1"]).toContain(own);
          if (held === false) expect(own).toMatch(/^gone |WRONGTYPE|HOLDFAST_FOREIGN/u);
        }
      }),
      { seed: SEED, numRuns: RUNS },
    );
  });
});

describe("scripts", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  type Harm = readonly [field: "s" | "h" | "w" | "q" | "o" | "f", who: number, text: string];
  const harm: fc.Arbitrary<Harm> = fc.tuple(fc.constantFrom("s", "h", "w", "w", "q", "q", "o", "f"), fc.nat(4), bytes);

  /** A character of what really stands there becomes another. */
  const twist = fc.tuple(
    fc.nat(20),
    fc.nat(200),
    fc.constantFrom("", "0", "9", "1", " ", "-", "x", "s", "=", "~", "1e9"),
  );

  test("S179: on a lock with mutated fields every script answers or says that it is foreign, and two never hold it", async () => {
    await using testClients = new Clients();
    const client = testClients.client(server.port);
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    await fc.assert(
      fc.asyncProperty(
        fc.array(harm, { maxLength: 3 }),
        fc.array(twist, { minLength: 1, maxLength: 3 }),
        async (harms, twists) => {
          const first = claimOf();
          const rest = Array.from({ length: 4 }, () => rivalOf(first));
          const all: readonly Claim[] = [first, ...rest];
          const key = namesOf("holdfast", false).lock(first.name);
          await granted(a, first);
          for (const claim of rest.slice(0, 3)) await b.attempt(claim);
          for (const [field, who, text] of harms) {
            const old = (await client.hget(key, "s")) ?? "";
            const suffix = { s: "", h: all[who]!.id, w: all[who]!.id, q: String(who), o: String(who), f: all[who]!.id }[
              field
            ];
            await client.hset(key, field + suffix, field === "s" ? old.slice(0, 31) + text : text);
          }
          for (const [which, at, put] of twists) {
            const fields = (await client.hkeys(key)).toSorted();
            const field = fields[which % fields.length]!;
            const value = (await client.hget(key, field))!;
            const place = at % Math.min(100, value.length + 1);
            await client.hset(key, field, value.slice(0, place) + put + value.slice(place + 1));
          }
          const foreign = (error: unknown): undefined => {
            expect(String(error)).toMatch(/holds something else|in use with limit/u);
          };
          const answers = [];
          for (const claim of rest) answers.push(await b.attempt(claim).catch(foreign));
          await a.renew([first]);
          // A claim that gets a grant is the only holder, as long as the key is still a lock.
          expect(answers.filter((answer) => answer?.granted === true).length).toBeLessThanOrEqual(1);
          await a.swap(first, rivalOf(first, { queues: false })).catch(foreign);
          for (const claim of all) await a.release(claim).catch(foreign);
          await a.query(first.name);
          await a.forceRelease(first.name, 5n, "ops", "test").catch(foreign);
          await client.del(key);
        },
      ),
      { seed: SEED, numRuns: Math.ceil(RUNS / 20) },
    );
  }, 600_000);

  test("S179: on a voted lock with mutated fields every script answers or says that it is foreign", async () => {
    await using testClients = new Clients();
    const client = testClients.client(server.port);
    const member = testClients.backend(server.port, { prefix: "voted" });
    await member.join({ quarantineMs: 0, allowEviction: false });
    await fc.assert(
      fc.asyncProperty(
        fc.option(bytes),
        fc.boolean(),
        fc.array(twist, { minLength: 1, maxLength: 3 }),
        async (ballots, minHold, twists) => {
          const first = claimOf({ minHoldMs: minHold ? 1000 : 0 });
          const others = [rivalOf(first), rivalOf(first)] as const;
          const key = namesOf("voted", false).lock(first.name);
          expect(await member.vote(first, 1000n)).toMatchObject({ vote: "granted" });
          if (ballots !== null) await client.hset(key, "b", ballots);
          for (const [which, at, put] of twists) {
            const fields = (await client.hkeys(key)).toSorted();
            const field = fields[which % fields.length]!;
            const value = (await client.hget(key, field))!;
            const place = at % Math.min(100, value.length + 1);
            await client.hset(key, field, value.slice(0, place) + put + value.slice(place + 1));
          }
          const foreign = (error: unknown): undefined => {
            expect(String(error)).toMatch(/holds something else|no answer/u);
          };
          const votes = [];
          for (const [at, claim] of others.entries())
            votes.push(await member.vote(claim, BigInt(2000 + at)).catch(foreign));
          expect(votes.filter((vote) => vote?.vote === "granted").length).toBeLessThanOrEqual(1);
          await member.recall(first.name, first.id).catch(foreign);
          await member.renew([first]);
          for (const claim of [first, ...others]) await member.withdraw(claim).catch(foreign);
          for (const claim of [first, ...others]) await member.release(claim).catch(foreign);
          await client.del(key);
        },
      ),
      { seed: SEED, numRuns: Math.ceil(RUNS / 20) },
    );
  }, 600_000);
});
