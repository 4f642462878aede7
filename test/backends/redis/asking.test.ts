/**
 * What a backend asks of Redis and makes of the answers, without a server: a connection that is made up says what a script would, so that
 * each answer can come, and each connection can end, at the moment that matters.
 */
import { describe, expect, onTestFinished, test } from "vitest";
import type { Claim, Listener, Renewal } from "../../../src/contract/backend.ts";
import { RedisBackend } from "../../../src/backends/redis/backend.ts";
import type { Connection } from "../../../src/backends/redis/connection.ts";
import type { Replicator } from "../../../src/backends/redis/durability.ts";
import * as generated from "../../../src/backends/redis/generated/scripts.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { confirm, notInstalled, openClient } from "../../../src/backends/redis/open.ts";
import { type RedisOptions, toSettings } from "../../../src/backends/redis/options.ts";
import { Renewals } from "../../../src/backends/redis/renewals.ts";
import { Waiters } from "../../../src/backends/redis/waiting.ts";
import { toLocal, whoText } from "../../../src/backends/redis/who.ts";
import { parseUrl } from "../../../src/backends/redis/url.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf, rivalOf } from "./lab.ts";

const NAME_OF = new Map(
  Object.entries(generated)
    .filter(([, script]) => typeof script === "object")
    .map(([name, script]) => [(script as generated.Script).sha, name]),
);
const BACK = "1790000000000";

interface Asked {
  readonly script: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** A client that answers scripts by their names. */
function made(topology: Connection["topology"] = "standalone") {
  const asked: Asked[] = [];
  const world = {
    asked,
    breaks: 0,
    says: (() => 1) as (asked: Asked) => unknown,
    subscribed: true,
    back: (): void => {},
  };
  const answer = async (script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> => {
    const one = { script, keys, args };
    asked.push(one);
    const reply = await world.says(one);
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const connection = {
    topology,
    keyPrefix: "",
    nodeOf: () => "",
    primaries: async () => [],
    breaks: () => world.breaks,
    isDown: () => false,
    onReconnect: (back: () => void) => ((world.back = back), () => {}),
    evalsha: (sha: string, keys: readonly string[], args: readonly string[]) => answer(NAME_OF.get(sha)!, keys, args),
    evalshaOn: (sha: string, key: string, other: string | undefined, first: string, second: string | undefined) =>
      answer(
        NAME_OF.get(sha)!,
        other === undefined ? [key] : [key, other],
        second === undefined ? [first] : [first, second],
      ),
    eval: (_: string, keys: readonly string[], args: readonly string[]) => answer("text", keys, args),
    openOwn: () =>
      world.subscribed
        ? Promise.resolve({ isOpen: true, subscribe: async () => {}, unsubscribe: async () => {}, close: () => {} })
        : Promise.reject(new Error("no messages")),
  } as unknown as Connection;
  return { world, connection, asked };
}

function backend(options: RedisOptions = {}) {
  const clock = new FakeClock();
  const { world, connection, asked } = made();
  const all = new RedisBackend(connection, toSettings({ clock, ...options }));
  onTestFinished(async () => {
    await all.close().catch(() => {});
  });
  return { clock, world, asked, all };
}

describe("renewals", () => {
  const names = namesOf("holdfast", false);
  const clock = new FakeClock();
  const settings = toSettings({ clock });
  const claims = (count: number, change: Partial<Claim> = {}): Claim[] =>
    Array.from({ length: count }, (_, at) => claimOf({ name: `l${at}`, ttlMs: 60_000, ...change }));

  test("each answer is read for itself: yes, wanted, another's, gone, foreign, an error, or none", async () => {
    const { world, connection } = made();
    const replies: unknown[] = [1, "1", 2, "2", "other", "gone ", `gone ${BACK} id {"by":"ops","reason":"why"}`];
    replies.push("!WRONGTYPE no", "!HOLDFAST_FOREIGN", "!OOM full", 5, null, "x", undefined);
    world.says = () => replies;
    const renewals = new Renewals(connection, names, settings, undefined);
    const all = await renewals.renew(claims(replies.length));
    const unknown = (message: string): unknown => ({
      held: "unknown",
      cause: { message: expect.stringContaining(message) },
    });
    expect(all).toMatchObject([
      { held: true },
      { held: true },
      { held: true, wanted: true },
      { held: true, wanted: true },
      { held: false, reason: { kind: "retaken" } },
      { held: false, reason: { kind: "gone" } },
      { held: false, reason: { kind: "forced", by: "ops", reason: "why" } },
      { held: false, reason: { kind: "overwritten" } },
      { held: false, reason: { kind: "overwritten" } },
      unknown("Redis is full"),
      ...Array<unknown>(4).fill(unknown("unexpected reply to a renewal")),
    ]);
    expect(all[0]).not.toHaveProperty("wanted");
    for (const [reply, held] of [
      [1, true],
      ["1", true],
      [2, "unknown"],
      ["2", "unknown"],
      [0, "unknown"],
      [new Error("ECONNRESET"), "unknown"],
    ] as const) {
      world.says = () => reply;
      expect((await renewals.renew(claims(3))).map((one) => one.held)).toEqual([held, held, held]);
    }
  });

  test("a quorum's member says which server answers, in place of the one yes or behind the answers", async () => {
    const { world, connection } = made();
    const renewals = new Renewals(connection, names, settings, undefined);
    renewals.asksWho = true;
    const who = "0123456789abcdef0123";
    const renewed = (reply: unknown): Promise<readonly Renewal[]> => {
      world.says = () => reply;
      return renewals.renew(claims(2));
    };
    const from = { held: true, from: who };
    expect(await renewed(who)).toEqual([from, from]);
    expect(await renewed([1, 2, who])).toEqual([from, { ...from, wanted: true }]);
    expect(await renewed("")).toEqual([{ held: true }, { held: true }]);
    expect(await renewed([2, "other", ""])).toEqual([
      { held: true, wanted: true },
      { held: false, reason: { kind: "retaken" } },
    ]);
    for (const strange of ["0123456789abcdef01234", "X", 5, null])
      expect((await renewed(strange)).map(({ held }) => held)).toEqual(["unknown", "unknown"]);
    expect(await renewed([1, "gone ", "X"])).toEqual([{ held: true }, { held: false, reason: { kind: "gone" } }]);
    expect(await renewed(1)).toEqual([{ held: true }, { held: true }]);
  });

  test("go in portions of 500, of one length, and with words of their own; fences only where they are needed", async () => {
    const { connection, asked } = made();
    const renewals = new Renewals(connection, names, settings, undefined);
    const many = claims(501);
    expect((await renewals.renew(many)).map(({ held }) => held)).toEqual(Array(501).fill(true));
    expect(asked.map(({ keys }) => keys.length)).toEqual([500, 1]);
    expect(asked[0]!.keys[0]).toBe(names.lock("l0"));
    const ids = (some: readonly Claim[]): string => some.map(({ id }) => `${id} `).join("");
    expect(asked[0]!.args).toEqual([ids(many.slice(0, 500)), "60000", "3600000", "holdfast:{marker}"]);
    // The same ones again need nothing new.
    await renewals.renew(many);
    expect(asked[2]!.args).toBe(asked[0]!.args);
    expect([...renewals.renewed()]).toEqual(many);
    asked.length = 0;
    const [plain, short, delayed, changed] = [
      claimOf({ ttlMs: 60_000 }),
      claimOf({ ttlMs: 30_000 }),
      claimOf({ ttlMs: 50_000, lockDelayMs: 10_000 }),
      claimOf({ ttlMs: 60_000, changed: true }),
    ] as const;
    await renewals.renew([plain, short, delayed, changed], [1n, 2n, 3n, 4n]);
    const fences = (...some: readonly number[]): string =>
      some.map((one) => `${String(one).padStart(16, "0")} `).join("");
    expect(asked.map(({ args }) => args)).toEqual([
      [ids([plain, delayed]), "60000", "3600000", "holdfast:{marker}", "", fences(1, 3)],
      [ids([short]), "30000", "3600000", "holdfast:{marker}", "", fences(2)],
      [ids([changed]), "60000", "3600000", "holdfast:{marker}", "", fences(4), whoText(changed)],
    ]);
    await renewals.renew([plain, changed]);
    expect(asked.slice(3).map(({ args }) => args.slice(4))).toEqual([[], ["", "", whoText(changed)]]);
    // With fences, and then without, it is another question.
    asked.length = 0;
    await renewals.renew([plain], [1n]);
    await renewals.renew([plain]);
    await renewals.renew([plain, short]);
    await renewals.renew([plain]);
    expect(asked.map(({ args }) => args.length)).toEqual([6, 4, 4, 4, 4]);
    expect(await renewals.renew([])).toEqual([]);
  });

  test("in a Cluster those of one slot go together, and each alone where the slot is half moved", async () => {
    const { world, connection, asked } = made("cluster");
    const inCluster = namesOf("holdfast", true);
    const renewals = new Renewals(connection, inCluster, settings, undefined);
    const all = claims(600);
    const slots = new Set(all.map(({ name }) => inCluster.marker(inCluster.lock(name))));
    await renewals.renew(all);
    expect(asked.length).toBe(slots.size);
    const of = ({ name }: Claim): string => inCluster.marker(inCluster.lock(name));
    const one = all[0]!;
    const same = all
      .filter((other) => of(other) === of(one))
      .slice(0, 2)
      .map((claim) => ({ ...claim, changed: true }));
    expect(same).toHaveLength(2);
    asked.length = 0;
    world.says = ({ keys }) => {
      if (keys.length > 1) return new Error("TRYAGAIN half moved");
      return keys[0] === inCluster.lock(same[0]!.name) ? ["other"] : new Error("ASK 5 b:2");
    };
    expect(await renewals.renew(same, [7n, 8n])).toMatchObject([
      { held: false, reason: { kind: "retaken" } },
      { held: "unknown" },
    ]);
    const fence = (is: number): string => `${String(is).padStart(16, "0")} `;
    expect(asked.slice(1).map(({ keys, args }) => [keys, args])).toEqual(
      same.map((claim, at) => [
        [inCluster.lock(claim.name)],
        [`${claim.id} `, "60000", "3600000", of(claim), "", fence(7 + at), whoText(claim)],
      ]),
    );
    asked.length = 0;
    await renewals.renew(same.map((claim) => ({ ...claim, changed: false })));
    expect(asked[1]!.args).toEqual([`${same[0]!.id} `, "60000", "3600000", of(one)]);
    // One alone is not asked for again.
    asked.length = 0;
    world.says = () => new Error("TRYAGAIN half moved");
    expect(await renewals.renew([one])).toMatchObject([{ held: "unknown" }]);
    expect(asked).toHaveLength(1);
  });

  test("one that a node does not answer does not delay the others for longer than a sixth of its ttl", async () => {
    const { world, connection } = made();
    const renewals = new Renewals(connection, names, settings, undefined);
    world.says = ({ args }) => (args[1] === "6000" || args[1] === "100" ? new Promise(() => {}) : 1);
    for (const [ttlMs, limitMs] of [
      [6000, 1000],
      [100, 50],
    ] as const) {
      let answers: readonly Renewal[] | undefined;
      void renewals.renew([claimOf({ ttlMs }), claimOf({ ttlMs: 60_000 })]).then((all) => (answers = all));
      await clock.advance(limitMs - 1);
      expect(answers).toBe(undefined);
      await clock.advance(1);
      expect(answers).toMatchObject([
        { held: "unknown", cause: { message: expect.stringContaining(`no answer within ${limitMs} ms`) } },
        { held: true },
      ]);
    }
  });

  test("count only where enough replicas have them", async () => {
    const { connection } = made();
    let replicas = 2;
    const replicator = { run: async () => ({ reply: 1, replicas }) } as unknown as Replicator;
    const durable = toSettings({ clock, durability: { replicas: 2, wait: 70 } });
    const renewals = new Renewals(connection, names, durable, replicator);
    expect(await renewals.renew(claims(1))).toEqual([{ held: true }]);
    replicas = 1;
    expect(await renewals.renew(claims(1))).toMatchObject([
      {
        held: "unknown",
        cause: { message: expect.stringContaining("1 of 2 replicas confirmed the renewal within 70 ms") },
      },
    ]);
  });
});

describe("claims", () => {
  const REFUSED = [0, 500, BACK, ""];
  const QUEUED = [1, 500, BACK, "", "=0000000000000009 0"];

  test("say whether what was answered may be of a second request", async () => {
    const { world, all } = backend();
    world.subscribed = false;
    const claim = claimOf({ queues: false });
    const breaking = (reply: unknown) => () => (world.breaks++, reply);
    for (const [reply, granted] of [
      ["7+000063", true],
      [REFUSED, false],
    ] as const) {
      world.says = () => reply;
      const calm = await all.attempt(claim);
      expect([calm.granted, calm.sentTwice ?? false]).toEqual([granted, false]);
      world.says = breaking(reply);
      expect(await all.attempt(claim)).toMatchObject({ granted, sentTwice: true });
    }
  });

  test.each([
    ["release", (all: RedisBackend, claim: Claim) => all.release(claim), 0],
    ["finish", (all: RedisBackend, claim: Claim) => all.release(claim, { value: "v", keepMs: 5, fence: 7n }), [0, 0]],
    ["force", (all: RedisBackend, claim: Claim) => all.forceRelease(claim.name, 7n, "ops", "why"), 0],
    ["forget", (all: RedisBackend, claim: Claim) => all.forget(claim.name, 7n), 0],
  ] as const)(
    "a no to %s is unknown where the connection broke meanwhile, and a yes is a yes",
    async (script, ask, no) => {
      const { world, asked, all } = backend();
      const claim = claimOf({ name: "a" });
      world.says = () => no;
      expect([false, "absent"]).toContain(await ask(all, claim));
      world.says = () => (world.breaks++, no);
      await expect(ask(all, claim)).rejects.toMatchObject({ fatal: false, message: expect.stringContaining('"a"') });
      world.says = () => (world.breaks++, Array.isArray(no) ? [1, 0] : 1);
      expect([true, "held"]).toContain(await ask(all, claim));
      expect(new Set(asked.map((one) => one.script))).toEqual(new Set([script]));
    },
  );

  test("a script that the server does not know is sent as text, and another error is explained", async () => {
    const { world, asked, all } = backend();
    const claim = claimOf({ queues: false });
    world.says = ({ script }) =>
      script !== "text" ? new Error("NOSCRIPT none") : asked.at(-1)!.args.length > 1 ? "7+000000" : 1;
    expect(await all.attempt(claim)).toMatchObject({ granted: true, fence: 7n });
    expect(await all.release(claim)).toBe("held");
    expect(asked.map(({ script }) => script)).toEqual(["attempt", "text", "release", "text"]);
    expect(asked[1]).toEqual({ ...asked[0], script: "text" });
    world.says = () => new Error("NOAUTH");
    for (const work of [
      all.attempt(claim),
      all.release(claim),
      all.renew([claim]).then(([one]) => Promise.reject((one as { cause: Error }).cause)),
    ])
      await expect(work).rejects.toMatchObject({ fatal: true, message: expect.stringContaining("wants a password") });
    // Once it took a write, a server that takes none has become a replica.
    world.says = () => new Error("READONLY");
    await expect(all.attempt(claim)).rejects.toMatchObject({ fatal: false });
    const other = backend();
    other.world.says = () => new Error("READONLY");
    await expect(other.all.attempt(claim)).rejects.toMatchObject({ fatal: true });
  });

  test("a lock that still has lapsed tickets to skip is asked again at once, as long as the claim is wanted", async () => {
    const { world, asked, all } = backend();
    const claim = claimOf({ queues: false });
    let left = 3;
    const busy = [0, 0, BACK, "busy"];
    world.says = () => (left-- > 0 ? busy : "7+000000");
    expect(await all.attempt(claim)).toMatchObject({ granted: true });
    expect(asked.map(({ script }) => script)).toEqual(Array(4).fill("attempt"));
    world.says = ({ script }) => {
      if (script === "attempt") void all.release(claim);
      return script === "attempt" ? busy : 0;
    };
    expect(await all.attempt(claim)).toMatchObject({ granted: false, heldBy: [], retryMs: 100 });
    // What a release finds is skipped by calls that no caller waits for.
    asked.length = 0;
    left = 2;
    world.says = () => (left-- > 0 ? 5 : 1);
    expect(await all.release(claim)).toBe("held");
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked.map(({ script, args }) => [script, args])).toEqual(Array(3).fill(["release", [claim.id]]));
  });

  test("a swap says what became of the one that left, unless that may be of a second request", async () => {
    const { world, asked, all } = backend();
    const held = claimOf({ minHoldMs: 5 });
    const next = rivalOf(held);
    world.says = () => [1, "7+000255"];
    expect(await all.swap(held, next)).toMatchObject({ released: "held", granted: true, run: 256 });
    expect([asked[0]!.script, asked[0]!.args[0], asked[0]!.args[2]]).toEqual(["swap", next.id, `${held.id}!`]);
    world.says = () => (world.breaks++, [1, "8+000255"]);
    expect(await all.swap(held, next)).toMatchObject({ released: "held", granted: true });
    world.says = () => [0, "9+000255"];
    expect(await all.swap(held, next)).toMatchObject({ released: "absent" });
    world.says = () => (world.breaks++, [0, "9+000255"]);
    expect(await all.swap(held, next)).not.toHaveProperty("released");
  });

  test("who waits asks once, with its place, also where a quarantine or replicas need more than the script", async () => {
    for (const options of [{}, { failover: "quarantine", checkReplicas: false }] as const) {
      const { clock, world, asked, all } = backend(options);
      world.says = ({ script }) => (script === "attempt" ? QUEUED : []);
      const claim = claimOf({ ttlMs: 20_000 });
      await all.attempt(claim);
      await clock.settle();
      asked.length = 0;
      await all.attempt(claim);
      expect(asked.map(({ script, args }) => [script, args[1]!.includes(" 10000 ")])).toEqual([["attempt", true]]);
      world.says = () => 1;
      await all.release(claim);
    }
  });

  test("the rest of a long queue learns of an outcome portion by portion, and not once more", async () => {
    const { world, asked, all } = backend();
    const places = [7, 9, 0];
    world.says = ({ script }) => (script === "finish" ? [1, 5] : (places.shift() ?? 0));
    expect(await all.release(claimOf(), { value: "v", keepMs: 5, fence: 7n })).toBe("held");
    for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
    expect(asked.slice(1).map(({ script, args }) => [script, args])).toEqual([
      ["wake", ["5"]],
      ["wake", ["7"]],
      ["wake", ["9"]],
    ]);
  });

  test("a hint to who holds a lock that cannot be sent is reported to who sends it", async () => {
    const { world, all } = backend();
    world.says = () => new Error("NOPERM no");
    await expect(all.want("a")).rejects.toMatchObject({ fatal: true, lock: "a" });
  });

  test("a limit that others do not share is reported with the one that was asked for", async () => {
    const { world, all } = backend();
    world.says = () => new Error("HOLDFAST_LIMIT 3");
    await expect(all.attempt(claimOf({ limit: 2, queues: false }))).rejects.toMatchObject({
      inForce: 3,
      message: expect.stringMatching(/limit 2.* limit 3/u),
    });
  });

  test("one that waits is asked about at the store's pace, and what it hears of is looked at when the server may be another", async () => {
    const { clock, world, asked, all } = backend({ ticket: 9000 });
    const claim = claimOf({ ttlMs: 60_000 });
    const doubts: (string | undefined)[] = [];
    all.listen({ doubt: (id?: string) => doubts.push(id) } as unknown as Listener);
    world.says = ({ script }) => (script === "beat" ? ["=0000000000000009 0"] : QUEUED);
    expect(await all.attempt(claim)).toMatchObject({ granted: false, position: 1, retryMs: 9000 });
    const beats = (): number => asked.filter(({ script }) => script === "beat").length;
    // The first question brought no place: its process did not listen yet.
    expect(asked.map(({ args }) => args[1]!.includes(" 9000 "))).toEqual([false, true]);
    doubts.length = 0;
    const before = beats();
    await clock.advance(2999);
    expect(beats()).toBe(before);
    await clock.advance(1);
    expect([beats(), asked.at(-1)!.args]).toEqual([before + 1, ["1", "0", claim.id]]);
    world.back();
    await clock.advance(0);
    expect([beats(), doubts]).toEqual([before + 2, [undefined]]);
    await all.close();
    world.back();
    await clock.advance(60_000);
    expect([beats(), doubts, clock.timers]).toEqual([before + 2, [undefined], 0]);
  });
});

describe("one that waits", () => {
  const LEARNED = { last: 1_790_000_000_000_000, againMs: 0, by: "" };

  function queue() {
    const clock = new FakeClock();
    let sent = 0;
    let reply: unknown = "=1790000000000000 0";
    const waiters = new Waiters(clock, false, {
      portions: (all) => (all.length === 0 ? [] : [[...all]]),
      send: async (portion) => (sent++, portion.map(() => reply)),
    });
    const claim = claimOf({ ttlMs: 60_000 });
    const ask = (): { readonly news: () => unknown } => {
      waiters.queued(claim, "key", 60_000, clock.now(), LEARNED, LEARNED.last / 1000);
      let news: unknown = "nothing";
      void waiters.watch(claim, new AbortController().signal).then((granted) => (news = granted ?? "ask"));
      return { news: () => news };
    };
    return { clock, waiters, claim, ask, sent: () => sent, answers: (next: unknown) => (reply = next) };
  }

  test("learns of an outcome at once, and of the next one only 50 ms later", async () => {
    const { clock, waiters, claim, ask, sent } = queue();
    const first = ask();
    waiters.finished(claim);
    await clock.settle();
    expect([first.news(), sent()]).toEqual(["ask", 0]);
    const second = ask();
    await clock.advance(49);
    waiters.finished(claim);
    await clock.settle();
    expect([second.news(), sent()]).toEqual(["nothing", 0]);
    await clock.advance(1);
    expect(sent()).toBe(1);
    await clock.advance(50);
    waiters.finished(claim);
    await clock.settle();
    expect(second.news()).toBe("ask");
  });

  test("asks when the store said, but no later than a third of its ticket, and no sooner than 5 ms", async () => {
    for (const [againMs, afterMs] of [
      [0, 20_000],
      [1000, 1001],
      [1, 5],
      [60_000, 20_000],
    ] as const) {
      const { clock, waiters, claim, sent } = queue();
      waiters.queued(claim, "key", 60_000, clock.now(), { ...LEARNED, againMs }, LEARNED.last / 1000);
      await clock.advance(afterMs - 1);
      expect(sent()).toBe(0);
      await clock.advance(1);
      expect(sent()).toBe(1);
      waiters.close();
      expect(clock.timers).toBe(0);
    }
  });

  test("goes on asking where no answer came, asks anew where it is not known any more, and takes a grant that it missed", async () => {
    const { clock, ask, sent, answers } = queue();
    const first = ask();
    answers(undefined);
    await clock.advance(40_000);
    expect([first.news(), sent()]).toEqual(["nothing", 2]);
    const askedMs = clock.now() + 20_000;
    answers("1790000000000001+000000*");
    await clock.advance(20_000);
    expect(first.news()).toMatchObject({ granted: true, fence: 1_790_000_000_000_001n, wanted: true, fromMs: askedMs });
    const second = ask();
    answers("-");
    await clock.advance(20_000);
    expect(second.news()).toBe("ask");
  });
});

describe("what a process says of itself", () => {
  test("has names of 4,096 units at most", () => {
    const read = (units: number): unknown => toLocal([1, 1, [["n".repeat(units), "5"]], 0])?.holds[0]?.name;
    expect(read(4096)).toBe("n".repeat(4096));
    expect(read(4097)).toBe(`${"n".repeat(4095)}…`);
  });
});

describe("opening by URL", () => {
  const INFO = "redis_version:7.2.0\r\nrun_id:abc\r\nrole:master\r\n";
  /** A client whose server says that, or fails so. */
  async function opening(url: string, info: string | Error, report?: readonly [Error, boolean]): Promise<unknown> {
    const command = async ([name]: readonly string[]): Promise<unknown> => {
      if (info instanceof Error) throw info;
      return name === "INFO" ? info : name === "TIME" ? ["1", "0"] : [];
    };
    const connection = { primaries: async () => [{ address: "", command }], keyPrefix: "" } as unknown as Connection;
    const opened = {
      client: {},
      connect: () => (report === undefined ? Promise.resolve() : new Promise<void>(() => {})),
      onError: (tell: (error: Error, final: boolean) => void) => {
        if (report !== undefined) queueMicrotask(() => tell(...report));
      },
      close: async () => {},
    };
    return confirm(parseUrl(url), opened, connection).then(
      () => "open",
      ({ message, fatal }: { message: string; fatal: boolean }) => [fatal, message],
    );
  }
  const says = (...words: readonly (string | boolean)[]): unknown =>
    words.length === 1 ? words[0] : [words[0], expect.stringContaining(words[1] as string)];

  test("a server that is not what the URL says is refused, with the URL that would be right", async () => {
    const replica = INFO.replace("master", "slave");
    const node = `${INFO}cluster_enabled:1\r\n`;
    const sentinel = `${INFO}redis_mode:sentinel\r\n`;
    for (const [url, info, ...words] of [
      ["redis://h", INFO, "open"],
      ["redis+sentinel://h/s", INFO, "open"],
      ["redis+cluster://h", node, "open"],
      ["redis://h", sentinel, true, "Redis at h:6379: this is a sentinel, which holds no data."],
      ["redis://h", replica, true, "this is a replica, which accepts no writes"],
      ["redis+cluster://h", replica, true, "this is a replica, which accepts no writes"],
      ["redis+sentinel://h/s", replica, false, "Redis at h:26379 (service s): the sentinels name a primary"],
      ["redis://h", node, true, "this is a node of a Redis Cluster. Use redis+cluster://"],
      ["redis+sentinel://h/s", node, true, "this is a node of a Redis Cluster."],
      ["redis+cluster://h", INFO, true, "this is not a Redis Cluster. Use redis://"],
    ] as const)
      expect(await opening(url, info), url).toEqual(says(...words));
  });

  test("what fails is fatal where trying again does not help, and says what to do", async () => {
    const code = (message: string, is: string): Error => Object.assign(new Error(message), { code: is });
    for (const [url, error, fatal, words] of [
      ["redis://h", new Error("NOAUTH"), true, "Redis at h:6379: Redis wants a password"],
      ["redis://h", new Error("READONLY"), true, "this is a replica"],
      ["redis://h", new Error("ECONNREFUSED"), false, "nothing usable answers (ECONNREFUSED). Check that Redis runs"],
      ["redis://h", new Error("certificate has expired"), false, "nothing usable answers"],
      ["rediss://h", new Error("certificate has expired"), true, "is out of date. Renew it (certificate has expired)."],
      ["rediss://h", code("failed", "CERT_HAS_EXPIRED"), true, "is out of date"],
      ["rediss://h", code("read", "ECONNRESET"), false, "did not answer the handshake"],
      ["rediss://h", new Error("odd"), false, "nothing usable answers (odd)"],
    ] as const) {
      expect(await opening(url, error), words).toEqual(says(fatal, words));
      expect(await opening(url, INFO, [error, true]), words).toEqual(says(fatal, words));
    }
  });

  test("a library that is missing is named, and one that is not asked for is not loaded", async () => {
    expect(notInstalled(undefined).message).toContain("Install ioredis, or redis: npm install ioredis.");
    expect(notInstalled("redis")).toMatchObject({
      fatal: true,
      message: expect.stringContaining("npm install redis."),
    });
    for (const client of ["ioredis", "redis"] as const) {
      const opened = await openClient(parseUrl(`redis://127.0.0.1:1?client=${client}`));
      const { evalsha, sendCommand } = opened.client as Record<string, unknown>;
      expect([typeof evalsha, typeof sendCommand]).toContain("function");
      expect(typeof evalsha === "function").toBe(client === "ioredis");
      await opened.close();
    }
  });
});
