/** What the foreign layouts share, without a server: their URLs, notes, words, portions, and what becomes of a request and of a message. */
import { describe, expect, onTestFinished, test } from "vitest";
import type { Granted, Refused } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../../src/contract/foreign.ts";
import type {
  Connection,
  OwnConnection,
  OwnConnectionEvents,
  Primary,
} from "../../../src/backends/redis/connection.ts";
import { slotOf } from "../../../src/backends/redis/keys.ts";
import { layoutErrors } from "../../../src/backends/redis/layouts/errors.ts";
import { Feed } from "../../../src/backends/redis/layouts/feed.ts";
import { forcedAt, GONE, whyGone } from "../../../src/backends/redis/layouts/forced.ts";
import { forceText, toForce, toForced, toWho, whoText } from "../../../src/backends/redis/layouts/notes.ts";
import { inPortions } from "../../../src/backends/redis/layouts/portions.ts";
import { Requests } from "../../../src/backends/redis/layouts/requests.ts";
import { readOrHidden, scan } from "../../../src/backends/redis/layouts/scan.ts";
import { UnderWay } from "../../../src/backends/redis/layouts/under-way.ts";
import { commonOptions, durationOf, parseLayoutUrl } from "../../../src/backends/redis/layouts/url.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

const ERRORS = layoutErrors("foreign", "Foreign locks", "its key is of another type");

describe("URLs", () => {
  test("say which layout, and its own options, which the rest knows nothing of", () => {
    const { endpoint, own } = parseLayoutUrl("redis://h:1/2?layout=it&a=x&idle=5&b=", "it", ["a", "b", "c"]);
    expect(own).toEqual({ a: "x", b: "" });
    expect(endpoint).toMatchObject({ addresses: [{ host: "h", port: 1 }], db: 2, options: { idle: 5 } });
    expect(parseLayoutUrl("redis://h?layout=it", "it", []).endpoint.addresses).toEqual([{ host: "h", port: 6379 }]);
    for (const url of ["redis://h", "redis://h?layout=other", "redis://h?a=layout=it"])
      expect(() => parseLayoutUrl(url, "it", [])).toThrow("to have `layout=it` in its query");
    expect(() => parseLayoutUrl("redis://h?layout=it&d=1", "it", ["a"])).toThrow(/options of .*\ba\b.* only/u);
  });

  test("may say what every layout obeys, and nothing else", () => {
    const options = (query: string): unknown =>
      commonOptions(parseLayoutUrl(`redis://h?layout=it${query}`, "it", []).endpoint, "it");
    expect(options("")).toEqual({ prefix: undefined, idle: undefined });
    expect(options("&prefix=p&idle=2s")).toEqual({ prefix: "p", idle: "2s" });
    expect(() => options("&ticket=5")).toThrow("Expected no `ticket` in `url`: layout=it knows nothing of it");
  });

  test("have durations of digits in milliseconds", () => {
    expect(["5", "5s", "", undefined].map(durationOf)).toEqual([5, "5s", "", undefined]);
  });
});

describe("notes", () => {
  test("come back as they were written, cut where they are longer than any of ours", () => {
    const claim = claimOf({ holder: "h".repeat(HOLDER_MAX + 1), meta: { a: "b" } });
    const cut = `${"h".repeat(HOLDER_MAX - 1)}…`;
    expect(toWho(whoText(claim))).toEqual({ holder: cut, meta: { a: "b" } });
    expect(toForce(forceText("h".repeat(HOLDER_MAX + 1), "r".repeat(REASON_MAX + 1)))).toEqual({
      by: cut,
      reason: `${"r".repeat(REASON_MAX - 1)}…`,
    });
  });

  test("of others have an unknown holder, without a meta, and no force", () => {
    const none = { holder: "unknown", meta: {} };
    for (const text of ["", "x", "5", "{}", "null", "[]", "[5]", "[null, null]", '[5, {"a":5}]', '[{}, "a"]'])
      expect(toWho(text), text).toMatchObject(text === '[{}, "a"]' ? { holder: "unknown" } : none);
    expect(toWho('["me", null]')).toEqual({ holder: "me", meta: {} });
    expect(toWho('["me", {"a": "b", "c": 5}]')).toEqual({ holder: "me", meta: {} });
    const long = (bytes: number): string => JSON.stringify(["me", { a: "x".repeat(bytes) }]);
    const rest = long(0).length;
    expect(toWho(long(2 * META_BYTES_MAX - rest)).meta).not.toEqual({});
    expect(toWho(long(2 * META_BYTES_MAX - rest + 1)).meta).toEqual({});
    for (const text of ["", "x", "{}", '["me"]', '["me", 5]', '[5, "why"]'])
      expect(toForce(text), text).toBe(undefined);
  });

  test("of a force say when, which lease and why", () => {
    const why = forceText("ops", "stuck");
    const forced = { name: "a", fence: 7n, by: "ops", reason: "stuck" };
    expect(toForced("a", 1000, `400 7 ${why}`)).toEqual([{ ...forced, agoMs: 600 }]);
    expect(toForced("a", 1000, `4000 7 ${why}`)).toEqual([{ ...forced, agoMs: 0 }]);
    expect(toForced("a", 1000, `400 ${"9".repeat(19)} ${forceText("a", "b\nc")}`)).toHaveLength(1);
    for (const text of ["", `400 ${why}`, `x 7 ${why}`, `400 7`, "400 7 x", `400 ${"9".repeat(20)} ${why}`])
      expect(toForced("a", 1000, text), text).toEqual([]);
  });
});

describe("who ended a lease by force", () => {
  const saying = (reply: unknown): Connection =>
    ({ evalsha: () => (reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply)) }) as never;
  const why = forceText("ops", "stuck");

  test("is said with the loss, if it is known", async () => {
    const forced = { held: false, reason: { kind: "forced", by: "ops", reason: "stuck" } };
    expect(await whyGone(saying(why), "notes", "id")).toEqual(forced);
    for (const reply of ["", 5, null, new Error("NOPERM")])
      expect(await whyGone(saying(reply), "notes", "id")).toEqual(GONE);
    expect(GONE).toEqual({ held: false, reason: { kind: "gone" } });
  });

  test("is shown for the lock that the notes are of", async () => {
    const look = (reply: unknown, isNotes = true): Promise<unknown> =>
      forcedAt(saying(reply), "notes", (name) => isNotes && name === "a");
    const all = [1000, "a", `400 7 ${why}`];
    expect(await look(all)).toEqual([{ name: "a", fence: 7n, by: "ops", reason: "stuck", agoMs: 600 }]);
    expect(await look(all, false)).toEqual([]);
    for (const [at, other] of [
      [0, "1000"],
      [1, 5],
      [2, 5],
    ] as const)
      expect(await look(all.with(at, other))).toEqual([]);
    for (const reply of [[], "x", new Error("WRONGTYPE no"), new Error("NOPERM no")])
      expect(await look(reply)).toEqual([]);
    await expect(look(new Error("LOADING"))).rejects.toThrow("LOADING");
  });
});

describe("errors", () => {
  test("have the layout's name and words, whatever Redis says", () => {
    const of = (cause: unknown, lock = "a"): LockBackendError => ERRORS.toBackendError(cause, lock);
    expect(of(new Error("WRONGTYPE no"))).toMatchObject({ backend: "foreign", fatal: true });
    expect(of(new Error("ERR x-WRONGTYPE no")).message).toContain('"a": its key is of another type.');
    expect(of(new Error("a WRONGTYPE no"))).toMatchObject({ fatal: false });
    expect(of(new Error("ERR HOLDFAST it is odd"), "")).toMatchObject({
      message: expect.stringContaining("Foreign locks: it is odd."),
      fatal: true,
    });
    expect(of(new Error("NOAUTH"))).toMatchObject({ backend: "foreign", fatal: true, lock: "a" });
    expect(of(new Error("ECONNRESET")).cause).toMatchObject({ message: "ECONNRESET" });
    for (const cause of ["closed", undefined, null])
      expect(of(cause)).toMatchObject({ backend: "foreign", fatal: false });
    const ours = ERRORS.unknown("a", "why");
    expect([of(ours), ours.fatal, ours.message]).toEqual([ours, false, expect.stringContaining('"a": why.')]);
    const others = new LockBackendError("redis", "a", "why", { fatal: true });
    expect(of(others)).toMatchObject({ backend: "foreign", message: expect.stringContaining("why") });
    expect(ERRORS.unexpected("a")).toMatchObject({ fatal: false, lock: "a" });
  });

  test("of a replica are fatal at the first request, and a fail-over later", () => {
    const cause = new Error("READONLY You can't write");
    expect([false, true].map((wrote) => ERRORS.toBackendError(cause, "a", wrote).fatal)).toEqual([true, false]);
    expect(ERRORS.toBackendError(cause, "a").fatal).toBe(false);
  });
});

test("keys go together in portions of 250, and in a Cluster by their slot", () => {
  const asks = Array.from({ length: 501 }, (_, at) => `k${at}`);
  const cut = (topology: string, all = asks): readonly (readonly string[])[] =>
    inPortions({ topology } as Connection, all, (ask) => ask);
  expect(cut("standalone").map(({ length }) => length)).toEqual([250, 250, 1]);
  expect(cut("standalone").flat()).toEqual(asks);
  const slots = cut("cluster", ["a{1}", "b{2}", "c{1}"]);
  expect(slots).toEqual([["a{1}", "c{1}"], ["b{2}"]]);
  expect(slotOf("a{1}")).toBe(slotOf("c{1}"));
  expect(cut("sentinel", [])).toEqual([]);
});

describe("keys of a server", () => {
  test("are asked for to the end, each once", async () => {
    const asked: (readonly string[])[] = [];
    const replies = [
      ["7", ["a", "b"]],
      ["9", ["b"]],
      ["3", []],
      ["0", ["a", "c"]],
    ];
    const primary: Primary = {
      address: "",
      command: (args) => (asked.push(args), Promise.resolve(replies[asked.length - 1])),
    };
    const found: unknown[] = [];
    for await (const keys of scan(primary, "x*", "hash")) found.push(keys);
    expect(found).toEqual([["a", "b"], ["c"]]);
    expect(asked.map(([, cursor]) => cursor)).toEqual(["0", "7", "9", "3"]);
    expect(asked[0]).toEqual(["SCAN", "0", "MATCH", "x*", "COUNT", "512", "TYPE", "hash"]);
    for (const reply of [5, [], ["0", "a"]])
      await expect(scan({ address: "", command: async () => reply }, "*", "hash").next()).rejects.toThrow("SCAN");
  });

  test("that are hidden, or have become something else, show nothing", async () => {
    const read = (reply: unknown): Promise<unknown> =>
      readOrHidden(() => (reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply)));
    expect(await read(["a"])).toEqual(["a"]);
    for (const reply of ["a", null, new Error("WRONGTYPE"), new Error("NOPERM")]) expect(await read(reply)).toEqual([]);
    await expect(read(new Error("OOM"))).rejects.toThrow("OOM");
    await expect(readOrHidden(() => Promise.reject("WRONGTYPE"))).rejects.toBe("WRONGTYPE");
  });
});

/** A promise and what settles it. */
function pending() {
  let resolve!: (value: unknown) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<unknown>((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
}

describe("requests under way", () => {
  test("for one claim follow each other, and those for others do not wait", async () => {
    const clock = new FakeClock();
    const underWay = new UnderWay(clock, ERRORS);
    const [a, b] = [claimOf({ name: "a" }), claimOf({ name: "b" })];
    const asked: string[] = [];
    const [first, second] = [pending(), pending()];
    const answers = [
      underWay.send(a, () => (asked.push("a1"), first.promise)).catch(() => "failed"),
      underWay.send(a, () => (asked.push("a2"), second.promise)),
      underWay.send(b, () => (asked.push("b1"), Promise.resolve("b"))),
    ];
    expect(asked).toEqual(["a1", "b1"]);
    expect(await answers[2]).toBe("b");
    first.reject(new Error("no"));
    await clock.settle();
    expect(asked).toEqual(["a1", "b1", "a2"]);
    let end: unknown = "waiting";
    void underWay.settled().then((left) => (end = left));
    await clock.settle();
    expect(end).toBe("waiting");
    second.resolve("yes");
    await clock.settle();
    expect([end, await answers[0], await answers[1], clock.timers]).toEqual([undefined, "failed", "yes", 0]);
    expect(await underWay.settled()).toBe(undefined);
  });

  test("that have no answer after two seconds are named, three of them", async () => {
    for (const [count, words] of [
      [1, 'of "l0". They'],
      [3, 'of "l0", "l1", "l2". They'],
      [5, 'of "l0", "l1", "l2" and 2 more. They'],
    ] as const) {
      const clock = new FakeClock();
      const underWay = new UnderWay(clock, ERRORS);
      for (let at = 0; at < count; at++)
        for (let twice = 0; twice < 2; twice++)
          void underWay.send(claimOf({ name: `l${at}` }), () => new Promise(() => {}));
      let end: LockBackendError | undefined;
      void underWay.settled().then((left) => (end = left));
      await clock.advance(1999);
      expect(end).toBe(undefined);
      await clock.advance(1);
      expect(end).toMatchObject({ lock: "l0", fatal: false, message: expect.stringContaining(words) });
    }
  });
});

describe("answers", () => {
  function requests() {
    const clock = new FakeClock();
    let breaks = 0;
    let back: (() => void) | undefined;
    const said: string[] = [];
    const connection = {
      breaks: () => breaks,
      onReconnect: (call: () => void) => {
        back = call;
        return () => said.push("stopped watching");
      },
    } as unknown as Connection;
    const own = { renewer: { module: "m", data: "d" }, close: async () => void said.push("closed") };
    const all = new Requests(connection, { clock, errors: ERRORS, own, doubt: () => said.push("doubt") });
    const breaking =
      (reply: unknown): (() => Promise<unknown>) =>
      () => (breaks++, Promise.resolve(reply));
    return { clock, all, said, breaking, back: () => back!() };
  }
  const no: Refused = { granted: false, heldBy: [] };

  test("are a grant from when it was asked for, or a refusal, and say whether they may be of a second request", async () => {
    const { clock, all, breaking } = requests();
    const claim = claimOf();
    const sentMs = clock.now();
    const slow = pending();
    const asked = all.attempt(
      claim,
      () => slow.promise,
      () => no,
    );
    await clock.advance(50);
    slow.resolve("17");
    expect(await asked).toEqual({ granted: true, fence: 17n, run: 1, fromMs: sentMs, sentTwice: false });
    expect(await all.attempt(claim, breaking("18"), () => no)).toMatchObject({ fence: 18n, sentTwice: true });
    const seen: unknown[] = [];
    const refused = (reply: unknown, tries: number): Refused => (seen.push([reply, tries]), no);
    for (const reply of ["", "1".repeat(17), "x", 5])
      expect(await all.attempt(claim, async () => reply, refused)).toEqual({ ...no, sentTwice: false });
    expect(await all.attempt(claim, breaking("no"), refused)).toEqual({ ...no, sentTwice: true });
    expect(seen).toEqual([
      ["", 0],
      ["1".repeat(17), 1],
      ["x", 2],
      [5, 3],
      ["no", 4],
    ]);
    expect(all.waits(claim)).toBe(true);
    await all.attempt(claim, async () => "19", refused);
    expect(all.waits(claim)).toBe(false);
  });

  test("a release is held, absent, or unknown where a connection broke; any other answer is none", async () => {
    const { all, breaking } = requests();
    const claim = claimOf();
    await all.attempt(
      claim,
      async () => "no",
      () => no,
    );
    expect(await all.release(claim, "it", breaking(1))).toBe("held");
    expect(all.waits(claim)).toBe(false);
    expect(await all.release(claim, "it", async () => 0)).toBe("absent");
    await expect(all.release(claim, "the key", breaking(0))).rejects.toMatchObject({
      fatal: false,
      message: expect.stringContaining("the key is no longer ours"),
    });
    for (const reply of ["1", 2, null])
      await expect(all.release(claim, "it", async () => reply)).rejects.toThrow("unexpected reply");
  });

  test("who waits looks at what came since it was asked for, and stops with the end, the signal or the backend", async () => {
    const { clock, all } = requests();
    const [asked, never] = [claimOf(), claimOf()];
    const askedMs = clock.now();
    await all.attempt(
      asked,
      async () => "no",
      () => no,
    );
    await clock.advance(70);
    const seen: unknown[] = [];
    let wake!: () => void;
    const onEnd = (sinceMs: number, given: () => void) => {
      wake = given;
      seen.push(sinceMs);
      return () => seen.push("stopped");
    };
    const gone = new AbortController();
    const first = all.watch(asked, gone.signal, onEnd as never);
    wake();
    expect([await first, seen]).toEqual([undefined, [askedMs, "stopped"]]);
    const second = all.watch(never, gone.signal, onEnd as never);
    gone.abort();
    await second;
    await all.watch(never, gone.signal, onEnd as never);
    const nowMs = askedMs + 70;
    expect(seen.slice(2)).toEqual([nowMs, "stopped", nowMs, "stopped"]);
    await all.close(() => {});
    await all.watch(never, new AbortController().signal, onEnd as never);
  });

  test("a server that may be another one is doubted, and close() ends all of it once", async () => {
    const { clock, all, said, back } = requests();
    back();
    all.listen({ doubt: () => said.push("listener") } as never);
    back();
    expect(said.splice(0)).toEqual(["doubt", "doubt", "listener"]);
    expect(all.renewer).toEqual({ module: "m", data: "d" });
    const slow = pending();
    void all.send(claimOf({ name: "a" }), () => slow.promise);
    let end: unknown;
    const closing = all.close(() => said.push("no more news"));
    void closing.catch((error: unknown) => (end = error));
    expect(all.close(() => said.push("again"))).toBe(closing);
    await expect(all.step("a", async () => 1)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("closed"),
    });
    await clock.advance(2000);
    expect(end).toBeInstanceOf(LockBackendError);
    expect(said).toEqual(["stopped watching", "no more news", "closed"]);
  });

  test("a step has the layout's errors, and knows whether the server ever took one", async () => {
    const { all } = requests();
    const replica = (): Promise<never> => Promise.reject(new Error("READONLY no"));
    await expect(all.step("a", replica)).rejects.toMatchObject({ backend: "foreign", fatal: true });
    expect(await all.step("a", async () => 5)).toBe(5);
    await expect(all.step("a", replica)).rejects.toMatchObject({ backend: "foreign", fatal: false });
    const { all: other } = requests();
    const asked: Promise<Granted | Refused> = other.attempt(claimOf(), replica, () => no);
    await expect(asked).rejects.toThrow("READONLY");
  });
});

describe("messages", () => {
  function feed() {
    const clock = new FakeClock();
    let events: OwnConnectionEvents | undefined;
    const done: string[] = [];
    let confirms = (): Promise<void> => Promise.resolve();
    const own: Partial<OwnConnection> = {
      isOpen: true,
      subscribe: async (channels) => (done.push(`+${channels.join()}`), confirms()),
      subscribeSharded: async (channel) => void done.push(`+s${channel}`),
      unsubscribe: async (channel, sharded) => void done.push(`-${sharded ? "s" : ""}${channel}`),
      close: () => done.push("close"),
    };
    const opened: string[] = [];
    const connection = {
      topology: "standalone",
      openOwn: async (to: string, given: OwnConnectionEvents) => (opened.push(to), (events = given), own),
    } as unknown as Connection;
    let heard = 0;
    const options = { ends: (text: string) => text === "free", heard: () => heard++, sharded: true };
    const all = new Feed(connection, clock, "a:1", options);
    onTestFinished(() => all.close());
    const say = (channel: string, text: string): void => events!.message(channel, text);
    return {
      clock,
      all,
      done,
      opened,
      say,
      heard: () => heard,
      confirmed: (next: typeof confirms) => (confirms = next),
    };
  }

  test("that a lock has ended wake all who wait for it, those who came too late for it, and no other", async () => {
    const { clock, all, done, opened, say, heard, confirmed } = feed();
    const { promise, resolve } = pending();
    confirmed(() => promise as Promise<void>);
    const woken: string[] = [];
    const wait = (channel: string, sinceMs = Infinity, name = channel): (() => void) =>
      all.listen(channel, sinceMs, () => woken.push(name));
    const stop = wait("a");
    await clock.settle();
    expect([opened, done, all.isSubscribed("a"), all.isSubscribed("b"), woken]).toEqual([
      ["a:1"],
      ["+sa", "+a"],
      false,
      false,
      [],
    ]);
    resolve(undefined);
    await clock.settle();
    expect([all.isSubscribed("a"), woken.length > 0]).toEqual([true, true]);
    wait("b");
    await clock.settle();
    expect(done.slice(2)).toEqual(["+sb", "+b"]);
    woken.length = 0;
    say("a", "free");
    say("a", "other");
    say("none", "free");
    expect([woken, heard()]).toEqual([["a"], 2]);
    const endedMs = clock.now();
    await clock.advance(10);
    wait("a", endedMs, "in time");
    wait("a", endedMs + 1, "later");
    await clock.settle();
    expect(woken).toEqual(["a", "in time"]);
    stop();
    stop();
    say("a", "free");
    expect(woken.toSorted()).toEqual(["a", "in time", "in time", "later"]);
  });

  test("are listened to two seconds longer than any claim waits, and not after the end", async () => {
    const { clock, all, done, say } = feed();
    const stops = [1, 2].map(() => all.listen("a", Infinity, () => {}));
    await clock.settle();
    for (const stop of stops) stop();
    await clock.advance(1999);
    expect(done).toEqual(["+sa", "+a"]);
    // Waited for again in time.
    const again = all.listen("a", Infinity, () => {});
    await clock.advance(5000);
    expect(done).toEqual(["+sa", "+a"]);
    again();
    await clock.advance(2000);
    expect([done.slice(2), all.isSubscribed("a")]).toEqual([["-sa"], false]);
    let woken = 0;
    all.listen("b", Infinity, () => woken++)();
    all.close();
    expect([clock.timers, done.at(-1)]).toEqual([0, "close"]);
    say("b", "free");
    expect(woken).toBe(0);
  });
});
