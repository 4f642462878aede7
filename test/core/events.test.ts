/** What can be seen from outside, on diagnostics_channel. */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { afterEach, expect, onTestFinished, test } from "vitest";
import type { Renewal } from "../../src/contract/backend.ts";
import { LockBackendError, LockClosedError } from "../../src/contract/errors.ts";
import { type AcquireEvent, acquireChannel, holdChannel, type HoldEvent } from "../../src/contract/events.ts";
import { subscribe as subscribeTyped } from "../../src/core/subscribe.ts";
import { failure, stage } from "./scripted.ts";

const subscriptions: [string, (message: unknown) => void][] = [];

function listen(name: string): Record<string, unknown>[] {
  const seen: Record<string, unknown>[] = [];
  // Tracing channels fill one object in as they go: a copy shows it as it was.
  const note = (message: unknown): void => void seen.push({ ...(message as object) });
  subscribe(name, note);
  subscriptions.push([name, note]);
  return seen;
}

afterEach(() => {
  for (const [name, note] of subscriptions.splice(0)) unsubscribe(name, note);
});

test("an acquire is traced from start to end, with outcome, fence and time waited", async () => {
  const { clock, locks, other } = stage();
  const starts = listen("tracing:holdfast:acquire:start");
  const ends = listen("tracing:holdfast:acquire:asyncEnd");
  const errors = listen("tracing:holdfast:acquire:error");
  const lease = await other().acquire("a");
  const waiting = locks.acquire("a");
  await clock.advance(2000);
  await lease.release();
  const { fence } = await waiting;
  expect(starts).toHaveLength(2);
  expect(starts[1]).toMatchObject({ backend: "scripted", name: "a", mode: "exclusive" });
  expect(ends[1]).toMatchObject({ outcome: "acquired", fence, waitedMs: 2000 });
  expect(await other().tryAcquire("a")).toBeNull();
  expect(ends[2]).toMatchObject({ outcome: "busy" });
  const late = failure(other().acquire("a", { wait: "1s" }));
  const aborted = failure(other().acquire("a", { signal: AbortSignal.abort(new Error("no")) }));
  await clock.advance(1000);
  await late;
  await aborted;
  expect(errors.map(({ outcome }) => outcome).toSorted()).toEqual(["aborted", "timeout"]);
});

test("a hold is traced from grant to release, and its loss is reported", async () => {
  const { clock, backend, locks } = stage();
  const starts = listen("tracing:holdfast:hold:start");
  const ends = listen("tracing:holdfast:hold:end");
  const errors = listen("tracing:holdfast:hold:error");
  const losses = listen("holdfast:lost");
  const lease = await locks.acquire("a");
  await clock.advance(1000);
  await lease.release();
  expect(starts).toMatchObject([{ name: "a", fence: lease.fence }]);
  expect(ends).toMatchObject([{ name: "a", end: "released", heldMs: 1000 }]);
  const second = await locks.acquire("a");
  await clock.advance(500);
  backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, "evicted");
  // At once: its user may never release it.
  expect(errors).toMatchObject([{ name: "a", fence: second.fence, heldMs: 500 }]);
  await clock.advance(500);
  expect(losses).toMatchObject([{ backend: "scripted", name: "a", fence: second.fence, reason: "evicted" }]);
  await second.release();
  expect(ends[1]).toMatchObject({ end: "lost", heldMs: 500 });
  expect(errors).toHaveLength(1);
});

test("a renewal is reported per batch, with its outcome", async () => {
  const { clock, locks } = stage();
  const renewals = listen("holdfast:renew");
  await locks.acquire("a");
  await locks.acquire("b");
  await clock.advance(10_000);
  expect(renewals).toMatchObject([{ backend: "scripted", asked: 2, renewed: 2, gone: 0, unknown: 0, tookMs: 0 }]);
});

test("a renewal's event counts what is gone and what is unknown, each for itself", async () => {
  const { clock, backend, locks } = stage();
  const renewals = listen("holdfast:renew");
  for (const name of ["a", "b", "c", "d", "e", "f"]) await locks.acquire(name);
  backend.interfere.renew = async (pass, claims) => {
    const answers = (await pass()) as readonly Renewal[];
    return answers.map((answer, at): Renewal => {
      if (claims[at]!.name === "a") return { held: false, reason: "evicted" };
      return claims[at]!.name < "d" ? { held: "unknown", cause: new Error("no answer") } : answer;
    });
  };
  await clock.advance(10_000);
  expect(renewals[0]).toMatchObject({ asked: 6, renewed: 3, gone: 1, unknown: 2 });
  backend.interfere.renew = () => Promise.reject(new Error("cut off"));
  renewals.length = 0;
  await clock.advance(10_000);
  const first = renewals[0]!;
  expect(first).toMatchObject({ renewed: 0, gone: 0, unknown: first["asked"] });
  expect(first["asked"]).toBeGreaterThan(0);
});

test("a renewal's event has the shortest ttl of its batch", async () => {
  const { clock, locks } = stage();
  const renewals = listen("holdfast:renew");
  await locks.acquire("a", { ttl: "30s" });
  await locks.acquire("b", { ttl: "10s" });
  await clock.advance(10_000);
  expect(renewals.find(({ asked }) => asked === 2)).toMatchObject({ ttlMs: 10_000 });
});

test("an acquire that was over before its caller gave up has not been aborted", async () => {
  const { locks, other } = stage();
  await other().acquire("a");
  const ends = listen("tracing:holdfast:acquire:asyncEnd");
  const caller = new AbortController();
  const failed = failure(locks.acquire("a", { signal: caller.signal }));
  void locks.close();
  caller.abort();
  expect(await failed).toBeInstanceOf(LockClosedError);
  expect(ends).toMatchObject([{ outcome: "error" }]);
});

test("an acquire that fails for good is traced as an error, with the error", async () => {
  const { backend, locks } = stage();
  const errors = listen("tracing:holdfast:acquire:error");
  backend.interfere.attempt = () =>
    Promise.reject(new LockBackendError("scripted", "a", "no such database", { fatal: true }));
  const stop = new AbortController();
  const error = await failure(locks.acquire("a", { signal: stop.signal }));
  expect(error).toBeInstanceOf(LockBackendError);
  expect(errors).toMatchObject([{ name: "a", outcome: "error", error, waitedMs: 0 }]);
});

test("re-entry works while acquires are traced, and is no acquire of its own", async () => {
  const { locks } = stage();
  const starts = listen("tracing:holdfast:acquire:start");
  const ends = listen("tracing:holdfast:acquire:asyncEnd");
  const inner = await locks.run("a", ({ fence }) =>
    locks.run("a", async (lease) => [lease.fence === fence, await locks.run("b", () => "other")]),
  );
  expect(inner).toEqual([true, "other"]);
  expect(starts.map(({ name }) => name)).toEqual(["a", "b"]);
  expect(ends.map(({ outcome }) => outcome)).toEqual(["acquired", "acquired"]);
});

test("a forced release is reported, with who and why", async () => {
  const { locks, other } = stage();
  const forced = listen("holdfast:force-release");
  const { fence } = await locks.acquire("a");
  await other().forceRelease("a", { fence, reason: "stuck" });
  expect(forced).toMatchObject([{ name: "a", fence, by: "there:2", reason: "stuck", done: true }]);
});

test("a subscriber that closes the locks at the end of an acquire: the caller gets an error, and no lease that is over", async () => {
  const { locks, other } = stage();
  const close = (): void => void locks.close();
  subscribe("tracing:holdfast:acquire:asyncEnd", close);
  onTestFinished(() => void unsubscribe("tracing:holdfast:acquire:asyncEnd", close));
  expect(await failure(locks.tryAcquire("a"))).toBeInstanceOf(LockClosedError);
  unsubscribe("tracing:holdfast:acquire:asyncEnd", close);
  expect(await other().tryAcquire("a")).not.toBeNull();
});

/** The facts of all acquires that are over, by who asked. */
function acquires(): AcquireEvent[] {
  const seen: AcquireEvent[] = [];
  onTestFinished(subscribeTyped("acquire", (event) => void seen.push({ ...event })));
  return seen;
}

test("an acquire that finds the lock free is not contended, and asks once", async () => {
  const { locks } = stage();
  const seen = acquires();
  await (await locks.acquire("a")).release();
  expect(seen).toMatchObject([{ outcome: "acquired", contended: false, attempts: 1, waitedMs: 0 }]);
  expect(seen[0]?.heldBy).toBeUndefined();
  expect(seen[0]?.position).toBeUndefined();
});

test("an acquire that waits says who held the lock, with what that one wrote for others, its place, and how often it asked", async () => {
  const { clock, locks, other } = stage();
  const seen = acquires();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const lease = await other().acquire("a", { meta: { traceparent } });
  const waiting = locks.acquire("a");
  await clock.advance(2000);
  await lease.release();
  await waiting;
  expect(seen[1]).toMatchObject({ outcome: "acquired", contended: true, position: 1, waitedMs: 2000 });
  expect(seen[1]?.heldBy).toMatchObject([{ holder: "there:2", fence: lease.fence, meta: { traceparent } }]);
  expect(seen[1]?.attempts).toBeGreaterThanOrEqual(1);
});

test("what is handed on in memory is contended, and asks the store for nothing", async () => {
  const { backend, locks } = stage();
  const seen = acquires();
  const begun: HoldEvent[] = [];
  onTestFinished(subscribeTyped("hold:start", (event) => void begun.push({ ...event })));
  const first = await locks.acquire("a");
  const second = locks.acquire("a");
  await first.release();
  await (await second).release();
  expect(backend.count("attempt")).toBe(1);
  expect(seen[1]).toMatchObject({ contended: true, attempts: 0, heldBy: [{ holder: "here:1", fence: first.fence }] });
  expect(begun).toMatchObject([
    { fence: first.fence, ttlMs: 30_000, localHandOver: false },
    { fence: first.fence + 1n, ttlMs: 30_000, localHandOver: true },
  ]);
});

test("how long a lease was held counts from its own beginning, also where it was handed on", async () => {
  const { clock, locks } = stage();
  const ended: HoldEvent[] = [];
  onTestFinished(subscribeTyped("hold", (event) => void ended.push({ ...event })));
  const first = await locks.acquire("a");
  await clock.advance(6);
  const second = locks.acquire("a");
  await first.release();
  const next = await second;
  await clock.advance(10);
  await next.release();
  expect(ended).toMatchObject([
    { heldMs: 6, localHandOver: false },
    { heldMs: 10, localHandOver: true },
  ]);
});

test("a try on a busy lock says who holds it; a call that gave up says it, too", async () => {
  const { clock, locks, other } = stage();
  await other().acquire("a");
  const seen = acquires();
  expect(await locks.tryAcquire("a")).toBeNull();
  const late = failure(locks.acquire("a", { wait: "1s" }));
  await clock.advance(1000);
  await late;
  const heldBy = [{ holder: "there:2" }];
  expect(seen).toMatchObject([
    { outcome: "busy", contended: true, attempts: 1, heldBy },
    { outcome: "timeout", contended: true, heldBy },
  ]);
});

test("once() and elect() are traced: a result of another is `done`", async () => {
  const { clock, locks } = stage();
  const seen = acquires();
  const { fence } = await locks.once("a", { keep: "1h" }, () => 1);
  await locks.once("a", { keep: "1h" }, () => 2);
  const over = new AbortController();
  const office = locks.elect("b", { signal: over.signal }, () => over.abort());
  await clock.advance(1000);
  await office;
  expect(seen).toMatchObject([
    { name: "a", outcome: "acquired", fence },
    { name: "a", outcome: "done", fence },
    { name: "b", outcome: "acquired" },
  ]);
});

test.each(["run", "tryRun", "once", "elect", "group"] as const)(
  "the work of %s is inside the hold, which is not inside the acquire",
  async (way) => {
    interface Span {
      readonly kind: string;
      readonly parent: Span | undefined;
    }
    const spans = new AsyncLocalStorage<Span>();
    for (const [kind, { start }] of Object.entries({ acquire: acquireChannel, hold: holdChannel })) {
      start.bindStore(spans, () => ({ kind, parent: spans.getStore() }));
      onTestFinished(() => void start.unbindStore(spans));
    }
    const { clock, locks } = stage();
    const over = new AbortController();
    let inside: Span | undefined;
    const work = (): void => {
      inside = spans.getStore();
      over.abort();
    };
    const caller: Span = { kind: "caller", parent: undefined };
    const done = spans.run(caller, async () => {
      if (way === "run") await locks.run("a", work);
      else if (way === "tryRun") await locks.tryRun("a", work);
      else if (way === "once") await locks.once("a", { keep: "1h" }, work);
      else if (way === "group") await locks.run(["a", "b"], work);
      else await locks.elect("a", { signal: over.signal }, work);
    });
    await clock.advance(1000);
    await done;
    expect(inside?.kind).toBe("hold");
    const parent = way === "group" ? inside?.parent?.parent : inside?.parent;
    expect(parent).toBe(caller);
  },
);

test("a lease of acquire() begins in its caller's context, whatever ended before it", async () => {
  const callers = new AsyncLocalStorage<string>();
  const seen: (string | undefined)[] = [];
  onTestFinished(subscribeTyped("hold:start", () => void seen.push(callers.getStore())));
  const { locks } = stage();
  const first = await callers.run("first", () => locks.acquire("a"));
  const second = callers.run("second", () => locks.acquire("a"));
  await callers.run("third", () => first.release());
  await (await second).release();
  expect(seen).toEqual(["first", "second"]);
});

test("a re-entry is no hold of its own", async () => {
  const { locks } = stage();
  const starts = listen("tracing:holdfast:hold:start");
  const ends = listen("tracing:holdfast:hold:end");
  await locks.run("a", () => locks.run("a", () => {}));
  expect([starts.length, ends.length]).toEqual([1, 1]);
});

test("what a subscriber of the hold's beginning runs is no re-entry into it", async () => {
  const { locks } = stage();
  const fences: bigint[] = [];
  let inner: Promise<void> | undefined;
  onTestFinished(
    subscribeTyped("hold:start", () => {
      inner ??= locks.run("a", ({ fence }) => void fences.push(fence));
    }),
  );
  await locks.run("a", ({ fence }) => void fences.push(fence));
  await inner;
  expect(new Set(fences).size).toBe(2);
});

test("a hold knows its acquire, and what a subscriber adds to the claim is there for others, beside what its caller wrote", async () => {
  const { locks, other } = stage();
  const begun: HoldEvent[] = [];
  onTestFinished(subscribeTyped("hold:start", (event) => void begun.push(event)));
  const meta = { traceparent: "mine", reason: "not this" };
  onTestFinished(subscribeTyped("acquire:start", (event) => void (event.meta = meta)));
  await locks.acquire("a", { meta: { reason: "nightly" } });
  expect(begun[0]?.acquired).toMatchObject({ name: "a", outcome: "acquired", waitedMs: 0 });
  expect((await other().inspect("a")).held[0]?.meta).toEqual({ traceparent: "mine", reason: "nightly" });
});

test.each([{ much: "x".repeat(5000) }, { no: 1 }, "text", []])(
  "what a subscriber may not add is left out: %#",
  async (meta) => {
    const { locks, other } = stage();
    onTestFinished(subscribeTyped("acquire:start", (event) => void (event.meta = meta as never)));
    await locks.acquire("a", { meta: { reason: "nightly" } });
    expect((await other().inspect("a")).held[0]?.meta).toEqual({ reason: "nightly" });
  },
);

test("a renewal says how late its answer came, counting the tries that failed", async () => {
  const { clock, backend, locks } = stage({ ttl: "30s" });
  const renewals = listen("holdfast:renew");
  await locks.acquire("a");
  const dueMs = clock.now() + 10_000;
  backend.interfere.renew = () => Promise.reject(new Error("cut off"));
  await clock.advance(14_000);
  const failed = renewals.length;
  expect(failed).toBeGreaterThan(0);
  backend.interfere.renew = undefined;
  await clock.advance(6000);
  const late = renewals[failed]!;
  expect(late).toMatchObject({ renewed: 1, tookMs: 0, ttlMs: 30_000 });
  // The renewal was due up to a tenth of ten seconds early, and was confirmed after the store had come back.
  expect(late["delayMs"]).toBeGreaterThanOrEqual(4000);
  expect(late["delayMs"]).toBeLessThanOrEqual(clock.now() - dueMs + 1000);
  renewals.length = 0;
  await clock.advance(12_000);
  // Timers count whole milliseconds.
  expect(renewals[0]!["delayMs"]).toBeLessThan(1);
});

test("subscribe() ends with what it returns, and knows its names", async () => {
  const { locks } = stage();
  const seen: HoldEvent[] = [];
  const end = subscribeTyped("hold", (event) => void seen.push(event));
  await (await locks.acquire("a")).release();
  end();
  await (await locks.acquire("a")).release();
  expect(seen).toMatchObject([{ name: "a", end: "released" }]);
  for (const name of ["holds", "toString", "__proto__", 1, undefined])
    expect(() => subscribeTyped(name as never, () => {})).toThrow(
      /Expected `name` to be one of "acquire:start", "acquire"/,
    );
  expect(() => subscribeTyped("lost", undefined as never)).toThrow(/`listener` to be a function/);
});

test("how often the store was asked is said whatever came of it: no answer, a failure, an outcome", async () => {
  const { backend, clock, locks } = stage();
  await locks.once("done", { keep: "1h" }, () => 1);
  const seen = acquires();
  await locks.once("done", { keep: "1h" }, () => 2);
  backend.interfere.attempt = () => new Promise(() => {});
  const [late, first] = [failure(locks.acquire("a", { wait: "1s" })), failure(locks.acquire("b", { wait: "1s" }))];
  const heir = failure(locks.acquire("b", { wait: "2s" }));
  await clock.advance(2000);
  await Promise.all([late, first, heir]);
  backend.interfere.attempt = () => Promise.reject(new LockBackendError("scripted", "c", "no", { fatal: true }));
  await failure(locks.acquire("c"));
  await failure(locks.tryAcquire("c"));
  expect(seen.map(({ name, outcome, attempts }) => [name, outcome, attempts])).toEqual([
    ["done", "done", 1],
    ["a", "error", 1],
    ["b", "error", 1],
    // The question was for the one before it.
    ["b", "error", 0],
    ["c", "error", 1],
    ["c", "error", 1],
  ]);
});
