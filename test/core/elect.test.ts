/** Election: campaign for leadership until the signal aborts. */
import { expect, test } from "vitest";
import { failure, gate, stage } from "./scripted.ts";

test("one of the candidates works at a time, and the next follows when it steps down", async () => {
  const { clock, locks, other } = stage();
  const log: string[] = [];
  const stops = [new AbortController(), new AbortController()];
  const work =
    (who: string) =>
    async ({ signal }: { signal: AbortSignal }) => {
      log.push(`${who} in`);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      log.push(`${who} out`);
    };
  const here = locks.elect("scheduler", { signal: stops[0]!.signal }, work("here"));
  await clock.settle();
  const there = other().elect("scheduler", { signal: stops[1]!.signal }, work("there"));
  await clock.advance(60_000);
  expect(log).toEqual(["here in"]);
  stops[0]!.abort();
  await here;
  await clock.advance(1000);
  expect(log).toEqual(["here in", "here out", "there in"]);
  stops[1]!.abort();
  await there;
});

test("stepping down waits for the work to settle before the lock is free", async () => {
  const { clock, locks, other } = stage();
  const stop = new AbortController();
  const cleaning = gate();
  const office = locks.elect("scheduler", { signal: stop.signal }, async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await cleaning.opened;
  });
  await clock.settle();
  stop.abort();
  await clock.advance(5000);
  expect(await other().tryAcquire("scheduler")).toBeNull();
  cleaning.open();
  await office;
  expect(await other().tryAcquire("scheduler")).not.toBeNull();
});

test("after a loss the work's signal has aborted before another candidate is elected, and this one campaigns again", async () => {
  const { clock, backend, locks, other } = stage();
  const stop = new AbortController();
  const terms: bigint[] = [];
  const signals: AbortSignal[] = [];
  const office = locks.elect("scheduler", { signal: stop.signal, ttl: "10s" }, async ({ fence, signal }) => {
    terms.push(fence);
    signals.push(signal);
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
  });
  await clock.settle();
  backend.interfere.renew = () => Promise.reject(new Error("cut"));
  let abortedBefore: boolean | undefined;
  const rival = other().run("scheduler", { wait: "1m" }, () => void (abortedBefore = signals[0]!.aborted));
  await clock.advance(11_000);
  await rival;
  expect(abortedBefore).toBe(true);
  backend.interfere.renew = undefined;
  await clock.advance(5000);
  expect(terms).toHaveLength(2);
  expect(terms[1]!).toBeGreaterThan(terms[0]!);
  stop.abort();
  await office;
});

test("work that ends at once does not become a busy loop", async () => {
  const { clock, locks } = stage();
  const stop = new AbortController();
  let terms = 0;
  const office = locks.elect("scheduler", { signal: stop.signal }, () => void terms++);
  await clock.advance(10_000);
  expect(terms).toBeGreaterThan(5);
  expect(terms).toBeLessThan(25);
  stop.abort();
  await office;
});

test("work that fails while elected ends the candidacy with its error, and frees the lock", async () => {
  const { locks, other } = stage();
  const mine = new Error("mine");
  await expect(locks.elect("scheduler", () => Promise.reject(mine))).rejects.toBe(mine);
  expect(await other().tryAcquire("scheduler")).not.toBeNull();
});

test("a store that is away is waited for", async () => {
  const { clock, backend, locks } = stage();
  const stop = new AbortController();
  backend.interfere.attempt = () => Promise.reject(new Error("down"));
  let elected = false;
  const office = locks.elect("scheduler", { signal: stop.signal }, async ({ signal }) => {
    elected = true;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  });
  await clock.advance(60_000);
  expect(elected).toBe(false);
  backend.interfere.attempt = undefined;
  await clock.advance(2000);
  expect(elected).toBe(true);
  stop.abort();
  await office;
});

test("an aborted signal ends a candidate that never was elected", async () => {
  const { clock, locks, other } = stage();
  await other().acquire("scheduler");
  const stop = new AbortController();
  const office = locks.elect("scheduler", { signal: stop.signal }, () => {});
  await clock.advance(1000);
  stop.abort();
  await office;
  expect((await locks.query()).pending).toHaveLength(0);
});

test("closing ends candidacies and offices", async () => {
  const { clock, locks } = stage();
  const office = locks.elect(
    "scheduler",
    ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
  );
  await clock.settle();
  await locks.close();
  await office;
  expect((await failure(locks.acquire("scheduler")))["code"]).toBe("ERR_LOCK_CLOSED");
});
