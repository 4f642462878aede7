/** One lock, as a majority of the members shows it; and what a quorum refuses in the words with which it says that it cannot. */
import { describe, expect, test } from "vitest";
import type { LocalFacts, LockState } from "../../../src/contract/backend.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";
import { newClaim } from "./servers.ts";

const name = "lock";
const facts = (waiters: number): LocalFacts => ({
  waiters,
  users: 1,
  holds: [{ name: "other", fence: 2n ** 60n }],
  holdsMore: false,
});

describe("inspect()", () => {
  test("shows one lock by its exact name, with its claim's own id, and who was forced out", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const [a, b] = [open(), open()];
    const [victim, holder] = [newClaim({ name }), newClaim({ name, meta: { job: "7" }, local: facts(3) })];
    const { fence: old } = await granted(a, victim);
    expect(await b.forceRelease(name, old, "ops", "stuck")).toBe(true);
    const { fence } = await granted(a, holder);
    await granted(a, newClaim({ name: `${name}/other` }));
    // Debris of a lost round, with the same ballot and the same holder's name, at a minority.
    for (const fake of fakes.slice(0, 2)) await fake.member.vote(newClaim({ name: "debris" }), 63n);
    await clock.advance(1000);
    const state = await b.inspect(name);
    expect(state.held).toMatchObject([{ name, id: holder.id, fence, meta: { job: "7" }, local: facts(3) }]);
    expect(state.held[0]?.remainder).toBeUndefined();
    expect(state.forced).toMatchObject([{ name, fence: old, by: "ops" }]);
    expect([state.pending, state.quarantineMs, state.outcome]).toEqual([[], undefined, undefined]);
    expect(await b.inspect("debris")).toEqual({ held: [], pending: [], forced: [] });
  });

  test("takes two claims with one ballot for two, though their holders have one name", async () => {
    const { fakes, open } = fakeQuorum(3);
    const [one, other] = [newClaim({ name, holder: "a:1" }), newClaim({ name, holder: "a:1" })];
    await fakes[0]!.member.vote(one, 63n);
    await fakes[1]!.member.vote(other, 63n);
    expect((await open().inspect(name)).held).toEqual([]);
  });

  test("says of a lock that is only kept that it is not held, and why it is kept", async () => {
    const { clock, open } = fakeQuorum(3);
    const [a, b] = [open(), open()];
    const cron = newClaim({ name, minHoldMs: 5000 });
    await granted(a, cron);
    await a.release(cron);
    expect((await b.inspect(name)).held).toMatchObject([{ id: cron.id, remainder: "minHold" }]);
    await granted(a, newClaim({ name: "delayed", ttlMs: 1000, lockDelayMs: 1000 }));
    expect((await b.inspect("delayed")).held[0]?.remainder).toBeUndefined();
    await clock.advance(1500);
    expect((await b.query("delayed")).held).toMatchObject([{ remainder: "lockDelay" }]);
  });

  test("shows what most members have, though one has missed the last change", async () => {
    const { fakes, open } = fakeQuorum(3);
    const [a, b] = [open(), open()];
    const claim = newClaim({ name, meta: { job: "1" }, local: facts(1) });
    await granted(a, claim);
    const said = { ...claim, meta: { job: "2" }, local: facts(2) };
    await a.renew([said]);
    expect((await b.inspect(name)).held).toMatchObject([{ meta: { job: "1" }, local: facts(1) }]);
    fakes[0]!.isCutOff = true;
    await a.renew([{ ...said, changed: true }]);
    fakes[0]!.isCutOff = false;
    await a.renew([claim]);
    expect((await b.inspect(name)).held).toMatchObject([{ meta: { job: "2" }, local: facts(2) }]);
    expect((await b.query(name)).held).toMatchObject([{ meta: { job: "2" }, local: facts(2) }]);
  });

  test("says for how long too few members vote because they may have lost leases", async () => {
    const { clock, fakes, open } = fakeQuorum(5);
    const backend = open({ memberWait: 100 });
    const recovering = (at: number, quarantineMs: number): void => {
      const { member, store } = fakes[at]!;
      member.inspect = async (lock): Promise<LockState> => ({ ...store.inspect(lock), quarantineMs });
    };
    recovering(0, 9000);
    recovering(1, 3000);
    expect((await backend.inspect(name)).quarantineMs).toBeUndefined();
    recovering(2, 5000);
    expect((await backend.inspect(name)).quarantineMs).toBe(3000);
    fakes[4]!.replyMs = Infinity;
    const state = backend.inspect(name);
    await clock.advance(200);
    expect((await state).quarantineMs).toBe(5000);
  });
});

test("what a quorum cannot do is refused in its own words, and nothing is asked of a member", async () => {
  const { fakes, open } = fakeQuorum(3);
  const backend = open();
  const claim = newClaim({ name });
  const wanting = await failure(backend.attempt({ ...claim, wantsOutcome: true }));
  expect([wanting.fatal, wanting.message]).toEqual([true, `Lock "lock": ${backend.can?.outcomes}.`]);
  expect(fakes.map(({ asked }) => asked.vote)).toEqual([0, 0, 0]);
  await granted(backend, claim);
  const leaving = await failure(backend.release(claim, { value: "done", keepMs: 1000, fence: 1n }));
  expect([leaving.fatal, leaving.message]).toEqual([true, wanting.message]);
  expect((await backend.renew([claim]))[0]?.held).toBe(true);
  expect(["steal", "forget", "expectWanted"].filter((method) => method in backend)).toEqual([]);
});
