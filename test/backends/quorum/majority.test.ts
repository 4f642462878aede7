/** What a majority says to a release, a query and a force release. */
import { describe, expect, test } from "vitest";
import { newClaim } from "./servers.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";

const name = "lock";

describe("release", () => {
  test("says true where a majority held it until now, false where it did not", async () => {
    const { clock, open } = fakeQuorum(3);
    const backend = open();
    const [kept, ended] = [newClaim({ name }), newClaim({ name: "ended", ttlMs: 1000 })];
    await granted(backend, kept);
    await granted(backend, ended);
    await clock.advance(2000);
    expect(await backend.release(kept)).toBe("held");
    expect(await backend.release(ended)).toBe("absent");
    expect(await backend.release(kept)).toBe("absent");
  });

  test("rejects where too few answer, and a retry gives the answer", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = true;
    const first = failure(backend.release(claim));
    await clock.advance(200);
    expect((await first).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "granted"]);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = false;
    expect(await backend.release(claim)).toBe("held");
  });

  test("continues in the background where a member cannot be reached, and after a lost round too", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    fakes[2]!.isCutOff = true;
    expect(await backend.release(claim)).toBe("held");
    expect(fakes[2]!.holders).toBe("test:1");
    fakes[2]!.isCutOff = false;
    await clock.advance(2000);
    expect(fakes[2]!.holders).toBe("");
  });

  test("keeps the lock held until minHold, but a lost round holds nothing", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const [a, b] = [open({ memberWait: 100 }), open({ memberWait: 100 })];
    const cron = newClaim({ name, minHoldMs: 5000 });
    await granted(a, cron);
    expect(await a.release(cron)).toBe("held");
    await clock.advance(4900);
    expect(await b.attempt(newClaim({ name }))).toMatchObject({ granted: false });
    await clock.advance(200);
    await granted(b, newClaim({ name, ttlMs: 1000 }));
    await clock.advance(2000);
    fakes[0]!.isCutOff = fakes[1]!.isCutOff = true;
    await failure(a.attempt(newClaim({ name, minHoldMs: 5000 })));
    await clock.advance(100);
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });
});

describe("what a majority says", () => {
  test("query() shows a lease once, with its first fence, and not what a lost round left at a minority", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open();
    const claim = newClaim({ name, holder: "a:1", meta: { why: "test" }, ttlMs: 8000 });
    const { fence } = await granted(backend, claim);
    for (const fake of fakes.slice(0, 2)) await fake.member.vote(newClaim({ name: "lock-debris" }), 1n);
    await clock.advance(1000);
    const { held, pending, forced } = await backend.query("lock");
    expect(held).toEqual([
      {
        name,
        mode: "exclusive",
        limit: 1,
        holder: "a:1",
        fence,
        heldMs: 1000,
        remainingMs: 7000,
        meta: { why: "test" },
        id: claim.id,
      },
    ]);
    expect([pending, forced]).toEqual([[], []]);
  });

  test("query() counts members that do not answer as possible holders, and needs a majority of answers", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open({ memberWait: 100 });
    await granted(backend, newClaim({ name }));
    fakes[0]!.replyMs = fakes[1]!.replyMs = Infinity;
    const two = backend.query("");
    await clock.advance(200);
    expect((await two).held).toHaveLength(1);
    fakes[2]!.isCutOff = true;
    const three = failure(backend.query(""));
    await clock.advance(200);
    expect((await three).message).toMatch(/Needs the answers of 3 of 5 members, and got 2: .*fake#3 unreachable/);
  });

  test("forceRelease() ends the lease by any fence of its run, reports it once to the holder, and never hits a successor", async () => {
    const { clock, open } = fakeQuorum(3);
    const [a, b] = [open(), open()];
    const lost: unknown[] = [];
    a.listen?.({ lost: (id, reason) => lost.push([id, reason]), doubt: () => undefined });
    const claim = newClaim({ name });
    const { fence } = await granted(a, claim);
    expect(await b.forceRelease(name, fence + 64n, "ops", "stuck")).toBe(false);
    expect(await b.forceRelease(name, fence + 17n, "ops", "stuck")).toBe(true);
    await clock.advance(1);
    expect(lost).toEqual([[claim.id, { kind: "forced", by: "ops", reason: "stuck" }]]);
    const next = await granted(b, newClaim({ name }));
    expect(await a.forceRelease(name, fence, "ops", "stuck")).toBe(false);
    expect(next.fence).toBeGreaterThan(fence);
    const { forced } = await a.query(name);
    expect(forced.map(({ by, reason, fence: which }) => [by, reason, which])).toEqual([["ops", "stuck", fence]]);
  });
});
