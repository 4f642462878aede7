/** What a majority says when a lease is released, looked at, or broken by force. */
import { describe, expect, test } from "vitest";
import { newClaim } from "./servers.ts";
import { failure, granted, play } from "./stage.ts";

const name = "lock";

describe("release", () => {
  test("says true where a majority held it until now, false where it did not", async () => {
    const { clock, open } = play(3);
    const backend = open();
    const [kept, ended] = [newClaim({ name }), newClaim({ name: "ended", ttlMs: 1000 })];
    await granted(backend, kept);
    await granted(backend, ended);
    await clock.advance(2000);
    expect(await backend.release(kept)).toBe("held");
    expect(await backend.release(ended)).toBe("absent");
    expect(await backend.release(kept)).toBe("absent");
  });

  test("rejects where too few answer, and knows when asked again", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[0]!.isCutOff = stages[1]!.isCutOff = true;
    const first = failure(backend.release(claim));
    await clock.advance(200);
    expect((await first).votes.map(({ vote }) => vote)).toEqual(["slow", "slow", "granted"]);
    stages[0]!.isCutOff = stages[1]!.isCutOff = false;
    expect(await backend.release(claim)).toBe("held");
  });

  test("goes on in the background where a member cannot be reached, and after a lost round too", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: 100 });
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[2]!.isCutOff = true;
    expect(await backend.release(claim)).toBe("held");
    expect(stages[2]!.holders).toBe("test:1");
    stages[2]!.isCutOff = false;
    await clock.advance(2000);
    expect(stages[2]!.holders).toBe("");
  });

  test("keeps the lock taken until minHold, but a lost round keeps nothing taken", async () => {
    const { clock, stages, open } = play(3);
    const [a, b] = [open({ memberWait: 100 }), open({ memberWait: 100 })];
    const cron = newClaim({ name, minHoldMs: 5000 });
    await granted(a, cron);
    expect(await a.release(cron)).toBe("held");
    await clock.advance(4900);
    expect(await b.attempt(newClaim({ name }))).toMatchObject({ granted: false });
    await clock.advance(200);
    await granted(b, newClaim({ name, ttlMs: 1000 }));
    await clock.advance(2000);
    stages[0]!.isCutOff = stages[1]!.isCutOff = true;
    await failure(a.attempt(newClaim({ name, minHoldMs: 5000 })));
    await clock.advance(100);
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });
});

describe("what a majority says", () => {
  test("query() shows a lease once, with its first fence, and not what a lost round left at a minority", async () => {
    const { clock, stages, open } = play(5);
    const backend = open();
    const { fence } = await granted(backend, newClaim({ name, holder: "a:1", meta: { why: "test" }, ttlMs: 8000 }));
    for (const stage of stages.slice(0, 2)) await stage.member.vote(newClaim({ name: "lock-debris" }), 1n);
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
      },
    ]);
    expect([pending, forced]).toEqual([[], []]);
  });

  test("query() counts members that do not answer as possible holders, and needs a majority of answers", async () => {
    const { clock, stages, open } = play(5);
    const backend = open({ memberWait: 100 });
    await granted(backend, newClaim({ name }));
    stages[0]!.replyMs = stages[1]!.replyMs = Infinity;
    const two = backend.query("");
    await clock.advance(200);
    expect((await two).held).toHaveLength(1);
    stages[2]!.isCutOff = true;
    const three = failure(backend.query(""));
    await clock.advance(200);
    expect((await three).message).toMatch(/Needs the answers of 3 of 5 members, and got 2: .*stage#3 unreachable/);
  });

  test("forceRelease() ends the lease by any fence of its run, tells its holder once, and never hits a successor", async () => {
    const { clock, open } = play(3);
    const [a, b] = [open(), open()];
    const lost: string[] = [];
    a.listen?.({ lost: (id, reason) => lost.push(`${id} ${reason}`), doubt: () => undefined });
    const claim = newClaim({ name });
    const { fence } = await granted(a, claim);
    expect(await b.forceRelease(name, fence + 64n, "ops", "stuck")).toBe(false);
    expect(await b.forceRelease(name, fence + 17n, "ops", "stuck")).toBe(true);
    await clock.advance(1);
    expect(lost).toEqual([`${claim.id} broken by force by ops: stuck`]);
    const next = await granted(b, newClaim({ name }));
    expect(await a.forceRelease(name, fence, "ops", "stuck")).toBe(false);
    expect(next.fence).toBeGreaterThan(fence);
    const { forced } = await a.query(name);
    expect(forced.map(({ by, reason, fence: which }) => [by, reason, which])).toEqual([["ops", "stuck", fence]]);
  });
});
