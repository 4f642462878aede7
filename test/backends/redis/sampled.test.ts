/** Small rules of the Redis backend, without a server: what is written, when it is asked, and which answer belongs to which claim. */
import { describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { Connection } from "../../../src/backends/redis/connection.ts";
import { forgetOutcome } from "../../../src/backends/redis/forget.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { openRenewer } from "../../../src/backends/redis/open.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { Terms } from "../../../src/backends/redis/records.ts";
import { Renewals } from "../../../src/backends/redis/renewals.ts";
import type { Scripts } from "../../../src/backends/redis/scripts.ts";
import { Waiters } from "../../../src/backends/redis/waiting.ts";
import { whoText } from "../../../src/backends/redis/who.ts";
import { FLAG } from "../../../src/backends/redis/wire.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

const names = namesOf("holdfast", false);

describe("what is written of a claim", () => {
  const terms = new Terms("holdfast:inbox:abc", toSettings({}));

  test("is holder and meta alone, as 0.1 writes it, where it neither lingers nor says more", () => {
    expect(JSON.parse(whoText(claimOf()))).toHaveLength(2);
    expect(JSON.parse(whoText(claimOf({ lingerMs: 50 })))).toMatchObject({ length: 4, 3: 50 });
  });

  test("says by its flag whether there is a minHold, and whether it is a vote", () => {
    const flagOf = (minHoldMs: number, crowd: "calm" | "voted"): string =>
      terms.of(claimOf({ minHoldMs }), true, crowd).slice(0, FLAG.plain.length);
    expect(flagOf(0, "calm")).toBe(FLAG.plain);
    expect(flagOf(5, "calm")).toBe(FLAG.minHold);
    expect(flagOf(0, "voted")).toBe(FLAG.voted);
    expect(flagOf(5, "voted")).toBe(FLAG.votedMinHold);
  });

  test("is written anew for a claim that differs in anything that it says", () => {
    const claim = claimOf();
    const local = { waiters: 1, users: 1, holds: [], holdsMore: false };
    const others: readonly Partial<Claim>[] = [
      { meta: { other: "yes" } },
      { local },
      { lingerMs: 50 },
      { wantsOutcome: true },
      { ttlMs: claim.ttlMs + 1 },
      { limit: 2 },
      { mode: "shared" },
      { lockDelayMs: 5 },
      { minHoldMs: 5 },
      { holder: "another" },
    ];
    for (const other of others) {
      const before = terms.of(claim, true, "calm");
      expect(terms.of({ ...claim, ...other }, true, "calm"), JSON.stringify(other)).not.toBe(before);
    }
  });
});

test("a primary may be silent for a second less than the lag that is allowed", () => {
  expect(toSettings({ failover: "quarantine", maxLag: "10s" }).silenceS).toBe(9);
});

test("a claim that may not be renewed for so long has its own answer, and the others have theirs", async () => {
  const asked: (readonly string[])[] = [];
  const connection = {
    topology: "standalone",
    keyPrefix: "",
    evalsha: async (_: string, keys: readonly string[]) => {
      asked.push(keys);
      return "1";
    },
  } as unknown as Connection;
  const settings = toSettings({ failover: "quarantine", maxTtl: "1m" });
  const claims = [61_000, 60_000, 60_000].map((ttlMs) => claimOf({ ttlMs }));
  const renewals = await new Renewals(connection, names, settings, undefined).renew(claims);
  expect(renewals).toMatchObject([
    { held: "unknown", cause: { message: expect.stringContaining("maxTtl") } },
    { held: true },
    { held: true },
  ]);
  expect(asked).toEqual([claims.slice(1).map(({ name }) => names.lock(name))]);
});

test("a renewer is opened with a URL, and with nothing else", async () => {
  await expect(openRenewer(5)).rejects.toThrow("Expected the renewer's data to be a Redis URL");
});

test.each([
  ["an outcome that was removed is removed, though the connection ended meanwhile", 1, true],
  ["whether there was one is unknown where the connection ended meanwhile", 0, "rejected"],
])("%s", async (_, reply, said) => {
  let breaks = 0;
  const connection = { keyPrefix: "", breaks: () => breaks++, evalsha: async () => reply } as unknown as Connection;
  const scripts = { explained: () => (error: unknown) => Promise.reject(error) } as unknown as Scripts;
  const removed = forgetOutcome(connection, names, scripts, "a", 5n).catch(() => "rejected");
  expect(await removed).toBe(said);
});

describe("a claim that waits", () => {
  const LEARNED = { last: 1_790_000_000_000_000, againMs: 0, by: "" };

  function waiting(): { clock: FakeClock; queue: Waiters; claim: Claim; sent: () => number } {
    const clock = new FakeClock();
    let sent = 0;
    const queue = new Waiters(clock, false, {
      portions: (waiters) => (waiters.length === 0 ? [] : [[...waiters]]),
      send: () => {
        sent++;
        return new Promise(() => {});
      },
    });
    const claim = claimOf({ ttlMs: 60_000 });
    queue.queued(claim, "key", 60_000, clock.now(), LEARNED, LEARNED.last / 1000);
    return { clock, queue, claim, sent: () => sent };
  }

  test("asks at once when the lock has an outcome", async () => {
    const { clock, queue, claim } = waiting();
    let news: unknown = "nothing";
    void queue.watch(claim, new AbortController().signal).then((granted) => (news = granted ?? "ask"));
    await clock.settle();
    expect(news).toBe("nothing");
    queue.finished(claim);
    await clock.settle();
    expect(news).toBe("ask");
  });

  test("has one sign of life out at a time", async () => {
    const { clock, queue, claim, sent } = waiting();
    void queue.watch(claim, new AbortController().signal);
    for (let i = 0; i < 3; i++) {
      queue.beatAll();
      await clock.advance(10);
    }
    expect(sent()).toBe(1);
  });
});
