/** What is written for Redis and read back from it, without a server: each reader at the edges of what it believes. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { namesOf, slotOf } from "../../../src/backends/redis/keys.ts";
import { ENTERING, type Entry, LEAVING, LocalClaims } from "../../../src/backends/redis/local-claims.ts";
import { readMessage } from "../../../src/backends/redis/messages.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { outcomeArgs, toOutcome } from "../../../src/backends/redis/outcomes.ts";
import { aloneIn, Terms, toForced, toForcedLoss, toHolding, toWaiting } from "../../../src/backends/redis/records.ts";
import {
  isBusy,
  isYoung,
  toCount,
  toGranted,
  toLearned,
  toRefused,
  toReleased,
  toRun,
  toVote,
} from "../../../src/backends/redis/replies.ts";
import { toLocal, whoText } from "../../../src/backends/redis/who.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

const NOW = 1_790_000_050_000;
const LAST = 9_007_199_250_000_000n;
const terms = new Terms("holdfast:inbox:abc", toSettings({}));
const fence16 = (fence: bigint): string => String(fence).padStart(16, "0");
const recordOf = (claim: Claim, { till = NOW + 1000, since = NOW - 500, number = 5n } = {}): string =>
  `${till} ${since} ${fence16(number)} ${terms.of(claim, true, "calm")}`;

describe("replies", () => {
  test("a grant is a fence that there can be, and how many more", () => {
    expect(toRun("5+000063")).toEqual({ fence: 5n, run: 64, wanted: false });
    expect(toRun("5+0*")).toEqual({ fence: 5n, run: 1, wanted: true });
    expect(toRun(`${LAST}+0`)).toMatchObject({ fence: LAST });
    for (const none of [`${LAST + 1n}+0`, "0+0", "5", "5+", "+5", "5+0**", "x5+0", "5+0000000", 5, null, ["5+0"]])
      expect(toRun(none)).toBeUndefined();
    expect(toGranted({ fence: 5n, run: 2, wanted: true }, 7)).toEqual({
      granted: true,
      fence: 5n,
      run: 2,
      fromMs: 7,
      mayLinger: true,
      wanted: true,
    });
    expect(toGranted({ fence: 5n, run: 2, wanted: false }, 7)).not.toHaveProperty("wanted");
  });

  test("who is still queued learns the last fence, and when to ask again", () => {
    expect(toLearned("=0000000000000005 0")).toEqual({ last: 5, againMs: 0, by: "" });
    expect(toLearned(`=${LAST} 1500@0123456789ab`)).toEqual({ last: Number(LAST), againMs: 1500, by: "@0123456789ab" });
    for (const none of [`=${LAST + 1n} 0`, "0000000000000005 0", "=5 0", "=0000000000000005 0@01", 5, undefined])
      expect(toLearned(none)).toBeUndefined();
  });

  test("counts are numbers, or texts of them, and never below 0", () => {
    expect([5, "5", -5, "-5", 0, "0"].map(toCount)).toEqual([5, 5, 0, 0, 0, 0]);
    expect([Infinity, Number.NaN, "", "5x", "1e5", " 5", null, {}, "1".repeat(16)].map(toCount)).toEqual(
      Array(9).fill(undefined),
    );
  });

  test("a release says what the claim was, also where the lock is busy", () => {
    expect([0, 1, 2, 4, 5, 6, "1"].map((reply) => toReleased("a", reply))).toEqual([
      "absent",
      "held",
      "queued",
      "absent",
      "held",
      "queued",
      "held",
    ]);
    for (const none of [3, 7, 8, "x", null, []])
      expect(() => toReleased("a", none)).toThrow('Lock "a": unexpected reply');
    expect([0, 3, 4, 6, "4"].map(isBusy)).toEqual([false, false, true, true, true]);
    expect([[0, 0, NOW, "busy"], [0, 0, NOW, ""], "busy"].map(isBusy)).toEqual([true, false, false]);
    expect([[0, 0, NOW, "young"], [0, 0, NOW, ""], "young", 5, null].map(isYoung)).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test("a refusal says who is in the way, when to ask again, and where the claim stands", () => {
    const record = recordOf(claimOf({ holder: "me" }));
    const held = { holder: "me", fence: 5n, heldMs: 500, remainingMs: 1000 };
    expect(toRefused("a", [0, 700, NOW, record])).toMatchObject({
      refused: { granted: false, heldBy: [held], retryMs: 700 },
      wallMs: NOW,
    });
    const free = toRefused("a", [0, 0, String(NOW), ""]);
    expect(free).toEqual({ refused: { granted: false, heldBy: [] }, wallMs: NOW, learned: undefined });
    const queued = toRefused("a", [3, 700, NOW, record, "=0000000000000009 4"]);
    expect(queued).toMatchObject({ refused: { position: 3, heldBy: [held] }, learned: { last: 9, againMs: 4 } });
    expect(queued.refused).not.toHaveProperty("retryMs");
    expect(toRefused("a", [0, 700, NOW, "young"]).refused).toEqual({
      granted: false,
      heldBy: [],
      quarantineMs: 700,
      retryMs: 700,
    });
    const kept = `${NOW + 5} ${NOW} ${fence16(5n)} id "me" value`;
    expect(toRefused("a", [0, 0, NOW, "done", kept]).refused).toMatchObject({
      heldBy: [],
      outcome: { value: "value" },
    });
    for (const none of [
      [],
      5,
      "x",
      ["x", 0, NOW, ""],
      [0, "x", NOW, ""],
      [0, 0, "x", ""],
      [3, 0, NOW, record],
      [3, 0, NOW, record, "x"],
      [0, 0, NOW, "done", "x"],
      [0, 0, NOW, "done"],
    ])
      expect(() => toRefused("a", none)).toThrow("unexpected reply");
  });

  test("a vote says yes in every character, or why not", () => {
    const from = "0123456789abcdef0123";
    expect(toVote("a", `${NOW} ${from}`)).toEqual({ vote: "granted", from, waiters: 0, wallMs: NOW });
    expect(toVote("a", `${NOW}  7`)).toEqual({ vote: "granted", from: undefined, waiters: 7, wallMs: NOW });
    const record = recordOf(claimOf({ holder: "me" }));
    expect(toVote("a", ["held", NOW, from, record, 3])).toEqual({
      vote: "held",
      from,
      by: "me",
      fence: 5n,
      heldMs: 500,
      remainingMs: 1000,
      waiters: 3,
      wallMs: NOW,
    });
    expect(toVote("a", ["held", NOW, "", "x", "3"])).toEqual({
      vote: "held",
      from: undefined,
      by: "unknown",
      fence: 0n,
      heldMs: undefined,
      remainingMs: 0,
      waiters: undefined,
      wallMs: NOW,
    });
    expect(toVote("a", ["low", String(NOW), 5, "17"])).toEqual({
      vote: "low",
      from: undefined,
      fence: 17n,
      wallMs: NOW,
    });
    expect(toVote("a", ["young", NOW, from, "1500"])).toEqual({ vote: "recovering", from, forMs: 1500, wallMs: NOW });
    for (const none of [
      "yes",
      `${NOW}`,
      `x${NOW} ${from}`,
      5,
      null,
      [],
      ["low", NOW, from, "x"],
      ["low", NOW, from, "0"],
      ["low", NOW, from, String(LAST + 1n)],
      ["young", NOW, from, "x"],
      ["young", NOW, from, "1".repeat(16)],
      ["young", "x", from, "5"],
      ["other", NOW, from, ""],
    ])
      expect(() => toVote("a", none)).toThrow("unexpected reply");
  });
});

describe("records", () => {
  test("come back as they were written", () => {
    const local = { waiters: 2, users: 3, holds: [{ name: "é b", fence: 2n ** 60n }], holdsMore: false };
    for (const claim of [
      claimOf({ holder: "host 1", meta: { a: "b" }, local }),
      claimOf({ mode: "shared", wantsOutcome: true }),
      claimOf({ limit: 7, lockDelayMs: 300, minHoldMs: 50 }),
    ]) {
      const { mode, limit, holder, meta, name } = claim;
      const record = recordOf(claim);
      const known = claim.local === undefined ? {} : { local };
      const shown = { name, mode, limit, holder, meta, fence: 5n, heldMs: 500, remainingMs: 1000, ...known };
      expect(toHolding(name, record, NOW)).toEqual(shown);
      expect(toHolding(name, record, NOW, "id")).toEqual({ ...shown, id: "id" });
      expect(toHolding(name, record, NOW, "~id")).toEqual({ ...shown, id: "id", remainder: "minHold" });
      expect(toWaiting(name, record, NOW, "id")).toEqual({
        waiter: {
          name,
          mode,
          limit,
          holder,
          meta,
          ...known,
          waitingMs: 500,
          position: 0,
          id: "id",
          order: BigInt(NOW - 500),
        },
        place: 5,
      });
      expect(aloneIn(`${fence16(9n)} ${NOW} =id ${record}`)).toEqual({ id: "id", record });
      expect(aloneIn(`${fence16(9n)} ${NOW} 1 x 1 5 id 0 1 0`)).toBeUndefined();
    }
  });

  test("what is left after the holder's own time is its lock delay, to the millisecond", () => {
    const claim = claimOf({ lockDelayMs: 300 });
    const remainder = (nowMs: number): unknown => toHolding("a", recordOf(claim), nowMs)?.remainder;
    expect([NOW + 699, NOW + 700, NOW + 999].map(remainder)).toEqual([undefined, "lockDelay", "lockDelay"]);
    expect(toHolding("a", recordOf(claimOf()), NOW + 1000)?.remainder).toBeUndefined();
  });

  test("times are never negative, and a ticket that has lapsed is no waiter", () => {
    const record = recordOf(claimOf());
    expect(toHolding("a", record, NOW - 600)).toMatchObject({ heldMs: 0, remainingMs: 1600 });
    expect(toHolding("a", record, NOW + 2000)).toMatchObject({ heldMs: 2500, remainingMs: 0 });
    expect(toWaiting("a", record, NOW + 999)).toBeDefined();
    expect(toWaiting("a", record, NOW + 1000)).toBeUndefined();
    expect(toWaiting("a", record, NOW - 600)?.waiter.waitingMs).toBe(0);
  });

  test("only fences that there can be are believed", () => {
    for (const [number, isOne] of [
      [1n, true],
      [LAST, true],
      [0n, false],
      [LAST + 1n, false],
    ] as const) {
      expect(toHolding("a", recordOf(claimOf(), { number }), NOW) !== undefined).toBe(isOne);
      const forced = `${NOW - 7} id {"by":"ops","reason":"stuck"}`;
      const shown = isOne ? { name: "a", fence: number, agoMs: 7, by: "ops", reason: "stuck" } : undefined;
      expect(toForced("a", String(number), forced, NOW)).toEqual(shown);
    }
    expect(toForced("a", "5x", `${NOW} id {}`, NOW)).toBeUndefined();
    expect(toForced("a", "5", `${NOW + 9} id 5`, NOW)).toMatchObject({
      agoMs: 0,
      by: "unknown",
      reason: "no reason given",
    });
    expect(toForcedLoss(`${NOW} id {"by":5,"reason":"x"}`)).toEqual({ kind: "forced", by: "unknown", reason: "x" });
    expect(toForcedLoss("gone")).toBeUndefined();
  });

  test("of others are cut, and what is no meta of ours is none", () => {
    const record = (who: string): string => recordOf(claimOf()).replace(/\["test:1".*$/, who);
    const shown = (who: unknown): unknown => {
      const { holder, meta } = toHolding("a", record(typeof who === "string" ? who : JSON.stringify(who)), NOW)!;
      return [holder, meta];
    };
    expect(shown(["h".repeat(200), {}])).toEqual(["h".repeat(200), {}]);
    expect(shown(["h".repeat(201), {}])).toEqual([`${"h".repeat(199)}…`, {}]);
    for (const who of ["{}", "x", "5", [5, 5], [null, ["a"]]]) expect(shown(who)).toEqual(["unknown", {}]);
    expect(shown(["me", { a: "x".repeat(4095) }])).toEqual(["me", { a: "x".repeat(4095) }]);
    expect(shown(["me", { a: "x".repeat(4096) }])).toEqual(["me", {}]);
    expect(shown(["me", { a: 5, b: "c" }])).toEqual(["me", { b: "c" }]);
  });

  test("what a process says of itself is written for sixteen locks, and read as from a stranger", () => {
    const holds = Array.from({ length: 17 }, (_, at) => ({ name: `l${at}`, fence: BigInt(at) }));
    const read = (local: Claim["local"]): unknown => toLocal((JSON.parse(whoText(claimOf({ local }))) as unknown[])[2]);
    const facts = { waiters: 0, users: 1, holds: holds.slice(0, 16), holdsMore: false };
    expect(read(facts)).toEqual(facts);
    expect(read({ ...facts, holds })).toEqual({ ...facts, holdsMore: true });
    expect(read({ ...facts, holdsMore: true })).toEqual({ ...facts, holdsMore: true });
    expect(whoText(claimOf({ wantsOutcome: true }))).toMatch(/\] $/);
    expect(whoText(claimOf())).toMatch(/\]$/);
    for (const none of [undefined, {}, [], [1, 1], [-1, 1, [], 0], [1, 1.5, [], 0], ["1", 1, [], 0], [1, 1, {}, 0]])
      expect(toLocal(none)).toBeUndefined();
    for (const held of [5, [], ["a"], ["a", 5], [5, "5"], ["a", "x"], ["a", "1".repeat(21)]])
      expect(toLocal([1, 1, [held], 0])).toMatchObject({ holds: [], holdsMore: true });
    expect(toLocal([1, 1, [["a", "1".repeat(20)]], 0])).toMatchObject({ holdsMore: false });
  });
});

test("an outcome is believed while it is kept, and as far as one of ours can go", () => {
  const args = outcomeArgs(claimOf({ holder: "my host" }), { value: "v w", keepMs: 1000.5, fence: 7n });
  expect(args).toEqual(["1001", fence16(7n), String.raw`"my\u0020host"`, "v w"]);
  const text = (over: number, left: number, fence = 7n, holder = args[2]!, value = "v w"): string =>
    `${over} ${left} ${fence16(fence)} id ${holder} ${value}`;
  expect(toOutcome(text(NOW + 1, NOW - 9), NOW)).toEqual({
    value: "v w",
    fence: 7n,
    holder: "my host",
    ageMs: 9,
    remainingMs: 1,
  });
  expect(toOutcome(text(NOW + 9, NOW + 5), NOW)).toMatchObject({ ageMs: 0 });
  const year = 366 * 86_400_000;
  for (const good of [
    text(NOW + 1, NOW + 1 - year),
    text(NOW + 1, NOW, LAST),
    text(NOW + 1, NOW, 7n, "5", "x".repeat(66_000)),
  ])
    expect(toOutcome(good, NOW)).toBeDefined();
  for (const bad of [
    text(NOW, NOW - 9),
    text(NOW + 1, NOW + 2),
    text(NOW + 1, NOW - year),
    text(NOW + 1, NOW, 0n),
    text(NOW + 1, NOW, LAST + 1n),
    text(NOW + 1, NOW, 7n, '"me"', "x".repeat(66_001)),
    "x",
    5,
    undefined,
  ])
    expect(toOutcome(bad, NOW)).toBeUndefined();
  for (const holder of ["5", "x", "{}"]) expect(toOutcome(text(NOW + 1, NOW, 7n, holder), NOW)?.holder).toBe("unknown");
});

test("a message says what its marks say, of as many claims as one may tell of", () => {
  const seal = "0123456789abcdef0123";
  const grant = `abcdefgh:5+000063.${seal}`;
  const [read] = readMessage(`granted ${grant}`).grants;
  expect(read).toEqual({
    shown: "abcdefgh",
    text: ":5+000063",
    seal,
    news: { fences: { fence: 5n, run: 64, wanted: false }, sure: true, by: "" },
  });
  const said = (text: string): unknown =>
    readMessage(`granted ${text}`).grants.map(({ shown, news }) => [shown, news.sure, news.by, news.fences.wanted]);
  expect(said(`abcdefgh?5+000063@0123456789ab.${seal}`)).toEqual([["abcdefgh", false, "@0123456789ab", false]]);
  expect(said(`${grant},*`)).toEqual([["abcdefgh", true, "", true]]);
  expect(said(`${grant},*abcdefgh`)).toEqual([["abcdefgh", true, "", true]]);
  expect(said(`${grant},*abcdefgx,b:6+000000.${seal}`)).toEqual([
    ["abcdefgh", true, "", false],
    ["b", true, "", false],
  ]);
  expect(said(`abcdefgh:0+000063.${seal},x`)).toEqual([]);
  const many = (count: number, one: string): string => Array.from({ length: count }, () => one).join(",");
  expect(readMessage(`granted ${many(64, grant)},*`).grants).toHaveLength(64);
  expect(readMessage(`granted ${many(65, grant)}`).grants).toHaveLength(64);
  for (const [word, mark, field] of [
    ["wanted", "*", "wanted"],
    ["done", "=", "done"],
  ] as const) {
    const one = `abcdefgh${mark}.${seal}`;
    expect(readMessage(`${word} ${one}`)[field]).toEqual([{ shown: "abcdefgh", text: mark, seal }]);
    expect(readMessage(`${word} abcdefgh!.${seal}`)[field]).toEqual([]);
    expect(readMessage(`${word} ${many(150, one)}`)[field]).toHaveLength(150);
    expect(readMessage(`${word} ${many(210, `a${mark}.${seal}`)}`)[field]).toHaveLength(200);
  }
  expect(readMessage(`forced abcdefgh!.${seal}`).forced).toEqual({ shown: "abcdefgh", text: "!", seal });
  for (const none of ["", "x", "granted", `forced abcdefgh*.${seal}`, `granted ${grant}${" ".repeat(6400)}`])
    expect(readMessage(none)).toEqual({ grants: [], forced: undefined, wanted: [], done: [] });
});

test("keys and names: every name has one key, and comes back from it", () => {
  const names = namesOf("hold*fast", false);
  const inCluster = namesOf("holdfast", true);
  for (const name of ["a", "", "a:b}{c", "%", "100%0041", "\ud800", "x\udfffy", "é😀", " "]) {
    for (const one of [names, inCluster]) {
      const key = one.lock(name);
      expect(one.nameOf(key)).toBe(name);
      expect(one.lock(name)).toBe(key);
    }
  }
  expect(new Set(["%", "%0025", "%%", "\ud800", "%d800"].map((name) => names.lock(name))).size).toBe(5);
  for (const key of ["holdfast:{aa}:a", "hold*fast:{aa}a", "hold*fast:{aa", "hold*fast:{marker}", "other"])
    expect(names.nameOf(key)).toBeUndefined();
  const key = inCluster.lock("a");
  expect(inCluster.marker(key)).toBe(key.slice(0, -":a".length));
  expect(inCluster.markerBeside(key, false)).toBeUndefined();
  expect(inCluster.markerBeside(key, true)).toBe(inCluster.marker(key));
  expect(names.markerBeside(key, false)).toBe("hold*fast:{marker}");
  expect([names.markers().length, new Set(inCluster.markers()).size]).toEqual([1, 256]);
  expect(inCluster.markers()).toContain(inCluster.marker(key));
  expect(names.glob("a*[?")).toBe(String.raw`hold\*fast:{??}:a\*\[\?*`);
  expect(names.inbox("x")).toBe("hold*fast:inbox:x");
  // Known buckets: another hash would lock names apart from those of other versions.
  expect(["a", "b", "invoice:42"].map((name) => inCluster.lock(name))).toEqual([
    "holdfast:{ed}:a",
    "holdfast:{23}:b",
    "holdfast:{30}:invoice:42",
  ]);
  // As the documentation of Redis Cluster has them.
  expect(
    ["123456789", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "{bar}"].map(slotOf),
  ).toEqual([0x31c3, slotOf("user1000"), slotOf("foo{}{bar}"), slotOf("{bar"), slotOf("bar"), slotOf("bar")]);
  expect([slotOf("foo"), slotOf("bar"), slotOf("foo{}{bar}")]).toEqual([12182, 5061, 8363]);
});

describe("the claims of this process", () => {
  const made = (): { clock: FakeClock; claims: LocalClaims; renewed: Claim[] } => {
    const clock = new FakeClock();
    const renewed: Claim[] = [];
    return { clock, claims: new LocalClaims(clock, () => renewed), renewed };
  };
  const alike = (end: string, change: Partial<Claim> = {}): Claim =>
    claimOf({ id: `abcdefgh${end}`.padEnd(22, "x"), ...change });

  test("are known apart though their ids begin alike, and gone when the store has said so", () => {
    const { claims } = made();
    const all = ["1", "2", "3", "4"].map((end) => alike(end));
    const entries = all.map((claim) => claims.add(claim, 0));
    expect(all.map((claim) => claims.get(claim))).toEqual(entries);
    expect(claims.add(all[2]!, 5)).toBe(entries[2]);
    for (const [at, others] of [
      [1, [0, 2, 3]],
      [3, [0, 2]],
      [0, [2]],
      [2, []],
    ] as const) {
      claims.left(entries[at], true);
      expect(claims.get(all[at]!)).toBeUndefined();
      for (const other of others) expect(claims.get(all[other]!)).toBe(entries[other]);
    }
    claims.left(undefined, true);
  });

  test("are wanted, leaving, or unwanted until they are asked for again", () => {
    const { claims } = made();
    const claim = alike("1");
    const entry = claims.add(claim, 0);
    expect(entry.state).toBe("wanted");
    const leaving = { ...claim, minHoldMs: 5 };
    expect(claims.leave(leaving)).toBe(entry);
    expect([entry.state, entry.claim]).toEqual(["leaving", leaving]);
    expect(claims.add(claim, 0).state).toBe("leaving");
    claims.left(entry, false);
    expect([entry.state, claims.get(claim)]).toEqual(["unwanted", entry]);
    expect(claims.add(claim, 0).state).toBe("wanted");
  });

  test("close() waits until the last answer is there, in whatever order they come, and not for what was answered", async () => {
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 0, 2],
      [1, 2, 0],
    ]) {
      const { clock, claims } = made();
      const entries = ["1", "2", "3"].map((end) => claims.add(alike(end), 0));
      for (const entry of entries) claims.begin(entry, ENTERING);
      claims.begin(entries[0]!, LEAVING);
      let isSettled = false;
      const settled = claims.settled().then((error) => {
        isSettled = true;
        return error;
      });
      claims.end(entries[0]!, ENTERING);
      for (const at of order) {
        await clock.settle();
        expect(isSettled).toBe(false);
        claims.end(entries[at]!, at === 0 ? LEAVING : ENTERING);
        claims.end(entries[at]!, LEAVING);
      }
      expect(await settled).toBeUndefined();
      expect(clock.timers).toBe(0);
    }
    const { clock, claims } = made();
    expect(claims.isClosing).toBe(false);
    expect(await claims.settled()).toBeUndefined();
    expect([claims.isClosing, clock.timers]).toEqual([true, 0]);
  });

  test("close() waits for an answer without a busy loop, and looks once more after it: it may lead to another request", async () => {
    const { clock, claims } = made();
    const [first, second] = ["1", "2"].map((end) => claims.add(alike(end), 0)) as [Entry, Entry];
    claims.begin(first, ENTERING);
    const turns = vi.spyOn(globalThis, "setImmediate");
    onTestFinished(() => turns.mockRestore());
    let isSettled = false;
    const settled = claims.settled().then(() => (isSettled = true));
    for (let turn = 0; turn < 20; turn++) await clock.settle();
    expect(turns.mock.calls.length).toBe(0);
    claims.end(first, ENTERING);
    // A late grant is given back.
    await Promise.resolve();
    claims.begin(second, LEAVING);
    for (let turn = 0; turn < 20; turn++) await clock.settle();
    expect([isSettled, turns.mock.calls.length]).toEqual([false, 1]);
    claims.end(second, LEAVING);
    await settled;
    expect(clock.timers).toBe(0);
  });

  test("what is not answered in two seconds is named, three of them", async () => {
    const { clock, claims } = made();
    const names = ["a", "b", "c", "d", "e"];
    for (const name of names) claims.begin(claims.add(claimOf({ name }), 0), ENTERING);
    const settled = claims.settled();
    await clock.advance(1999);
    expect(clock.timers).toBe(1);
    await clock.advance(1);
    const { message } = (await settled)!;
    expect(message).toMatch(/did not answer within 2 s.*: of "\w", "\w", "\w" and 2 more\. They end/);
  });

  test("old ones are forgotten when there are many, but not those in use, nor what is not answered", () => {
    const { clock, claims, renewed } = made();
    const [inUse, asked, young, old, long] = Array.from({ length: 5 }, (_, at) =>
      claimOf({ name: "kept", ttlMs: at === 4 ? 400_000 : 60_000 }),
    ) as [Claim, Claim, Claim, Claim, Claim];
    renewed.push(inUse);
    for (const claim of [inUse, asked, old, long]) claims.add(claim, clock.now());
    claims.begin(claims.get(asked)!, ENTERING);
    clock.block(600_000);
    for (let at = 0; at < 996; at++) claims.add(claimOf(), clock.now());
    // At its very time it stays.
    claims.add(young, clock.now());
    expect(claims.get(old)).toBeDefined();
    clock.block(1);
    for (let at = 0; at < 1100; at++) claims.add(claimOf(), clock.now());
    expect([inUse, asked, young, long].map((claim) => claims.get(claim) !== undefined)).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(claims.get(old)).toBeUndefined();
  });
});
