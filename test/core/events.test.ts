/** What can be seen from outside, on diagnostics_channel. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { afterEach, expect, onTestFinished, test } from "vitest";
import type { Renewal } from "../../src/contract/backend.ts";
import { LockBackendError, LockClosedError } from "../../src/contract/errors.ts";
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
  backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, "evicted");
  expect(losses).toMatchObject([{ backend: "scripted", name: "a", fence: second.fence, reason: "evicted" }]);
  await second.release();
  expect(ends[1]).toMatchObject({ end: "lost" });
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
