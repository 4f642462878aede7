/** Renewals for another ttl: at all members, never for less than a lease has, and trusted as far as a majority has confirmed it. */
import { describe, expect, test } from "vitest";
import type { Backend } from "../../../src/contract/backend.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";
import { newClaim } from "./servers.ts";

const name = "lock";

async function isFree(backend: Backend): Promise<boolean> {
  const rival = newClaim({ name, ttlMs: 100 });
  const answer = await backend.attempt(rival);
  if (answer.granted) await backend.release(rival);
  return answer.granted;
}

describe("a renewal for a longer ttl", () => {
  test("is kept by a majority for that long, and so is the trust in it", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const [a, b] = [open(), open()];
    const claim = newClaim({ name, ttlMs: 1000 });
    await granted(a, claim);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = true;
    await clock.advance(500);
    expect(await a.renew([{ ...claim, ttlMs: 5000 }])).toEqual([{ held: true, fromMs: clock.now() }]);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = false;
    await clock.advance(4800);
    expect(await isFree(b)).toBe(false);
    // Trusted until then: without that, a majority that comes after the first ttl would come too late.
    expect((await a.renew([claim]))[0]).toMatchObject({ held: true });
    await clock.advance(1100);
    expect(await isFree(b)).toBe(true);
  });

  test("that a majority confirms only after the old trust counts for nothing", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: "5s" });
    const claim = newClaim({ name, ttlMs: 1000 });
    await granted(backend, claim);
    await clock.advance(500);
    for (const fake of fakes) fake.replyMs = 490;
    const late = backend.renew([{ ...claim, ttlMs: 20_000 }]);
    await clock.advance(5000);
    expect((await late)[0]).toMatchObject({ held: false, reason: { kind: "expired", renewal: "late-majority" } });
  });

  test("that only a minority got prolongs no trust", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name, ttlMs: 1000 });
    await granted(backend, claim);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = true;
    expect((await backend.renew([{ ...claim, ttlMs: 20_000 }]))[0]).toMatchObject({ held: "unknown" });
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = false;
    await clock.advance(995);
    expect((await backend.renew([claim]))[0]).toMatchObject({ held: false });
  });

  test("is asked for anew at a member that was missing", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name, ttlMs: 1000 });
    await granted(backend, claim);
    fakes[2]!.restart();
    expect((await backend.renew([{ ...claim, ttlMs: 9000 }]))[0]?.held).toBe(true);
    await clock.advance(100);
    expect(fakes[2]!.store.query(name).held[0]?.remainingMs).toBeGreaterThan(8000);
  });

  test("beyond the group's maxTtl is refused by itself, and ends nothing", async () => {
    const { clock, open } = fakeQuorum(3);
    const backend = open({ maxTtl: "30s" });
    const [greedy, modest] = [newClaim({ name }), newClaim({ name: "modest" })];
    for (const claim of [greedy, modest]) await granted(backend, claim);
    await clock.advance(1000);
    const [refused, renewed] = await backend.renew([{ ...greedy, ttlMs: 31_000 }, modest]);
    expect(renewed).toMatchObject({ held: true });
    if (refused?.held !== "unknown") throw new Error(`answered ${refused?.held}`);
    const error = await failure(Promise.reject(refused.cause));
    expect([error.fatal, error.message]).toEqual([true, expect.stringContaining("this quorum's maxTtl is 30 s")]);
    expect((await backend.renew([{ ...greedy, ttlMs: 30_000 }]))[0]).toMatchObject({ held: true });
  });
});

test("a renewal for a shorter ttl ends no lease sooner, at no member and in no mind", async () => {
  const { clock, open } = fakeQuorum(3);
  const [a, b] = [open(), open()];
  const claim = newClaim({ name, ttlMs: 5000 });
  await granted(a, claim);
  const shorter = { ...claim, ttlMs: 1000 };
  expect((await a.renew([shorter]))[0]?.held).toBe(true);
  await clock.advance(4000);
  expect(await isFree(b)).toBe(false);
  expect((await a.renew([shorter]))[0]?.held).toBe(true);
  await clock.advance(1100);
  expect(await isFree(b)).toBe(true);
});

test("a renewal for a shorter ttl is trusted for that only, where the old trust ends before", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const backend = open({ memberWait: "5s" });
  const claim = newClaim({ name, ttlMs: 5000 });
  await granted(backend, claim);
  await clock.advance(4800);
  const shorter = { ...claim, ttlMs: 1000 };
  expect((await backend.renew([shorter]))[0]?.held).toBe(true);
  await clock.advance(600);
  for (const fake of fakes) fake.replyMs = 500;
  const late = backend.renew([shorter]);
  await clock.advance(5000);
  expect((await late)[0]).toMatchObject({ held: false, reason: { renewal: "late-majority" } });
});

test("a holder that attempts again is renewed for the ttl that it names", async () => {
  const { clock, open } = fakeQuorum(3);
  const [a, b] = [open(), open()];
  const claim = newClaim({ name, ttlMs: 1000 });
  const { fence } = await granted(a, claim);
  expect(await granted(a, { ...claim, ttlMs: 8000 })).toMatchObject({ fence });
  await clock.advance(7000);
  expect(await isFree(b)).toBe(false);
  expect(await a.release(claim)).toBe("held");
});

test("a quorum that is closed after a renewal for another ttl waits for no vote that was answered", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const backend = open({ memberWait: 100 });
  fakes[2]!.replyMs = 50;
  const claim = newClaim({ name, ttlMs: 1000 });
  const grant = granted(backend, claim);
  await clock.advance(0);
  await grant;
  expect((await backend.renew([{ ...claim, ttlMs: 5000 }]))[0]?.held).toBe(true);
  await clock.advance(200);
  let closed = false;
  void backend.close().then(() => (closed = true));
  await clock.advance(1);
  expect(closed).toBe(true);
});
