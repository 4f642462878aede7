/** What a holder that may linger hears of the store: late, early, or in doubt. Others must not wait for what nothing uses. */
import { expect, test } from "vitest";
import type { Lease, LocksOptions } from "../../src/core/api.ts";
import { takeByClaim } from "../../src/core/by-claim.ts";
import { insides } from "../../src/core/inside.ts";
import { gate, stage } from "./scripted.ts";

const LINGER: LocksOptions = { linger: 100, ttl: 1000 };

/** The lease of a claim that waits, as soon as it has it. */
function noted(waiting: Promise<Lease>): { lease: Lease | undefined } {
  const note: { lease: Lease | undefined } = { lease: undefined };
  void waiting.then((lease) => (note.lease = lease));
  return note;
}

test("an answer to a renewal that is older than the news does not take it back", async () => {
  const set = stage(LINGER);
  const reply = gate();
  set.backend.interfere.renew = async (pass) => {
    const answer = await pass();
    await reply.opened;
    return answer;
  };
  const lease = await set.locks.acquire("a");
  await set.clock.advance(340);
  expect(set.backend.count("renew")).toBe(1);
  const waiting = noted(set.other().acquire("a"));
  await set.clock.advance(0);
  reply.open();
  await set.clock.advance(0);
  await lease.release();
  await set.clock.advance(0);
  expect(waiting.lease).toBeDefined();
});

test("a try hears of it, too, where the news has overtaken its grant", async () => {
  const set = stage(LINGER);
  const reply = gate();
  set.backend.interfere.attempt = async (pass) => {
    const answer = await pass();
    await reply.opened;
    return answer;
  };
  const trying = set.locks.tryAcquire("a");
  await set.clock.advance(0);
  const waiting = noted(set.other().acquire("a"));
  await set.clock.advance(0);
  reply.open();
  await (await trying)?.release();
  await set.clock.advance(0);
  expect(waiting.lease).toBeDefined();
});

test.each(["one", "all"])("a hold that the store has put in doubt is not handed out: %s", async (which) => {
  const set = stage(LINGER);
  const first = await set.locks.acquire("a");
  await first.release();
  set.backend.interfere.renew = () => new Promise(() => {});
  set.backend.listener?.doubt(which === "one" ? set.backend.steps[0]?.claims[0]?.id : undefined);
  const second = await set.locks.acquire("a");
  expect(second.fence).toBeGreaterThan(first.fence + 1n);
  // In use, it does not linger afterwards, until a renewal has confirmed it.
  set.backend.listener?.doubt();
  await second.release();
  await set.clock.advance(0);
  expect(set.store.view()).toEqual([]);
});

test("a claim whose id is known elsewhere does not linger", async () => {
  const set = stage(LINGER);
  const inside = insides.get(set.locks)!;
  const lease = await takeByClaim(inside, "a", {}, { id: "0123456789abcdefghijkl" });
  await lease?.release();
  await set.clock.advance(0);
  expect(set.store.view()).toEqual([]);
});

test("what a thread renews does not linger: that does not hear from its renewals who waits", async () => {
  const { locks } = stage();
  const options = { linger: 50, renew: "thread", ttl: 1000 } as const;
  await expect(locks.acquire("a", options)).rejects.toThrow(/no `linger` with this `renew`/);
});
