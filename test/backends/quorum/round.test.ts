/** How votes and renewals are counted, to the millisecond: members in memory, on a clock that stands still. */
import { describe, expect, test } from "vitest";
import type { Vote } from "../../../src/contract/backend.ts";
import type { LockBackendError } from "../../../src/contract/errors.ts";
import { memory } from "../../../src/backends/memory/index.ts";
import { quorum } from "../../../src/backends/quorum/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { newClaim } from "./servers.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";

const name = "lock";

describe("a round", () => {
  test("is won by a majority, while two of five never answer", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    fakes[0]!.replyMs = fakes[1]!.replyMs = Infinity;
    const startedMs = clock.now();
    expect(await granted(open(), newClaim({ name }))).toMatchObject({ run: 64, fromMs: startedMs });
    expect(clock.now()).toBe(startedMs);
  });

  test.each([
    [987, true],
    [988, false],
  ])("S37: of a ttl of 1 s, with votes that take %i ms, makes a lease: %s", async (replyMs, isLease) => {
    const { clock, fakes, open } = fakeQuorum(3);
    for (const fake of fakes) fake.replyMs = replyMs;
    const attempt = open({ memberWait: "5s" })
      .attempt(newClaim({ name, ttlMs: 1000 }))
      .then(
        (answer) => answer.granted,
        (cause: LockBackendError) => cause.message,
      );
    await clock.advance(5000);
    if (isLease) return expect(await attempt).toBe(true);
    expect(await attempt).toMatch(/only after 988 ms, too late for a ttl of 1 s/);
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("that is lost leaves nothing behind, also where the vote's answer comes late", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    await granted(open(), newClaim({ name: "warm", ttlMs: 1000 }));
    fakes[0]!.replyMs = 400;
    fakes[1]!.replyMs = 500;
    const attempt = failure(open({ memberWait: 100 }).attempt(newClaim({ name })));
    await clock.advance(101);
    expect((await attempt).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "granted"]);
    await clock.advance(2000);
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("is raised at once where a member has granted a greater fence, so a slow clock costs one more round", async () => {
    const { fakes, open } = fakeQuorum(3);
    const [early, late] = [newClaim({ name }), newClaim({ name })];
    const ahead = new FakeClock({ wallMs: Date.UTC(2026, 0, 2) });
    const first = await granted(open({ clock: ahead }), early);
    const behind = open();
    for (const { store } of fakes)
      for (const { fence } of store.query("").held) store.forceRelease(name, fence, "", "");
    const second = await granted(behind, late);
    expect(second.fence).toBeGreaterThanOrEqual(first.fence + 64n);
  });

  test("leaves no two leases with a fence in common", async () => {
    const { clock, open } = fakeQuorum(3);
    const backend = open();
    let end = 0n;
    for (let times = 0; times < 50; times++) {
      const claim = newClaim({ name });
      const { fence, run } = await granted(backend, claim);
      expect(fence).toBeGreaterThanOrEqual(end);
      end = fence + BigInt(run);
      await backend.release(claim);
      await clock.advance(times % 3);
    }
  });

  test("has a greater fence than all before it, though every member lost its data and the client is new", async () => {
    const { clock, open } = fakeQuorum(3);
    const first = await granted(open(), newClaim({ name }));
    await clock.advance(1);
    const fresh = [memory({ clock }), memory({ clock }), memory({ clock })];
    const second = await granted(quorum(fresh, { clock }), newClaim({ name }));
    expect(second.fence).toBeGreaterThanOrEqual(first.fence + BigInt(first.run));
  });

  test("reports in one message why each member did not vote", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    fakes[0]!.isCutOff = true;
    fakes[1]!.replyMs = Infinity;
    await fakes[2]!.member.vote(newClaim({ name, holder: "web-3:812", ttlMs: 2000 }), 1n);
    fakes[3]!.member.vote = (): Promise<Vote> => Promise.resolve({ vote: "recovering", forMs: 12_000 });
    const backend = open({ memberWait: 100, labels: ["a", "b", "c", "d", "e"] });
    // At first it is not known yet that b hangs.
    expect(await backend.attempt(newClaim({ name }))).toMatchObject({
      granted: false,
      heldBy: [{ holder: "web-3:812" }],
    });
    await clock.advance(200);
    const error = await failure(backend.attempt(newClaim({ name })));
    expect(error.message).toContain('Lock "lock" needs the votes of 3 of 5 members: ');
    expect(error.message).toContain("a unreachable (connection refused); b too slow");
    expect(error.message).toContain("c held (by web-3:812 (fence 0), for another 1.8 s at most); d recovering (");
    expect(error.votes.map(({ member, vote }) => `${member} ${vote}`)).toEqual([
      "a unreachable",
      "b slow",
      "c held",
      "d recovering",
      "e granted",
    ]);
  });
});

test("a member that hangs is asked only now and then, and is used again once it answers", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const backend = open({ memberWait: 100 });
  fakes[0]!.replyMs = Infinity;
  for (let times = 0; times < 200; times++) {
    const claim = newClaim({ name });
    await granted(backend, claim);
    await backend.release(claim);
    await clock.advance(50);
  }
  // Ten seconds have passed, and a probe goes out every second.
  expect(fakes[0]!.asked.vote).toBeLessThan(20);
  expect(fakes[0]!.asked.vote).toBeGreaterThan(8);
  fakes[0]!.replyMs = 0;
  await clock.advance(1500);
  const claim = newClaim({ name, holder: "later:1" });
  await granted(backend, claim);
  expect(fakes.map(({ holders }) => holders)).toContain("later:1");
});

test("a member whose first answer is lost is asked to join again", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  for (const [at, { member }] of fakes.entries()) {
    let times = 0;
    // As after a connection that broke just then: the client forgets the question.
    member.join = () => (times++ === 0 ? new Promise(() => undefined) : Promise.resolve({ id: `${at}` }));
  }
  const backend = open({ memberWait: 100 });
  const first = failure(backend.attempt(newClaim({ name })));
  await clock.advance(200);
  expect((await first).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "slow"]);
  await clock.advance(1000);
  expect(await backend.attempt(newClaim({ name }))).toMatchObject({ granted: true });
});

describe("renewal", () => {
  test("counts only within the old trust", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const claim = newClaim({ name, ttlMs: 1000 });
    const backend = open({ memberWait: "5s" });
    await granted(backend, claim);
    await clock.advance(500);
    for (const fake of fakes) fake.replyMs = 490;
    const late = backend.renew([claim]);
    await clock.advance(5000);
    expect((await late)[0]).toMatchObject({
      held: false,
      reason: { kind: "expired", renewal: "late-majority" },
    });
  });

  test("asks missing members again, but never one that granted a greater ballot since", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    fakes[3]!.isCutOff = fakes[4]!.isCutOff = true;
    const backend = open();
    const claim = newClaim({ name, holder: "a:1" });
    await granted(backend, claim);
    fakes[3]!.isCutOff = fakes[4]!.isCutOff = false;
    // Another claim got member 5 for a moment, with a greater ballot.
    const rival = newClaim({ name, holder: "b:1" });
    await fakes[4]!.member.vote(rival, BigInt(clock.wall()) * 2000n);
    await fakes[4]!.member.release(rival);
    for (let times = 0; times < 3; times++) {
      expect((await backend.renew([claim]))[0]?.held).toBe(true);
      await clock.advance(100);
    }
    expect(fakes.map(({ holders }) => holders)).toEqual(["a:1", "a:1", "a:1", "a:1", ""]);
  });

  test("of one lost claim does not harm the others in the batch", async () => {
    const { fakes, open } = fakeQuorum(3);
    const backend = open();
    const claims = ["x", "y", "z"].map((each) => newClaim({ name: each }));
    const fences = await Promise.all(claims.map((claim) => granted(backend, claim)));
    for (const { store } of fakes) store.forceRelease("y", fences[1]!.fence + 63n, "ops", "test");
    const renewals = await backend.renew([...claims, newClaim()]);
    expect(renewals.map(({ held }) => held)).toEqual([true, false, true, false]);
  });
});
