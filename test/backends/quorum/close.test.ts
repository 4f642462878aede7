/** close() of a quorum: nothing of ours is left at a majority, or the error names it. And reports of one lease are about that one only. */
import { describe, expect, test } from "vitest";
import type { Claim, Listener } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { newClaim } from "./servers.ts";
import { failure, fakeQuorum, granted } from "./fake-members.ts";

const name = "closing";

describe("S132: close()", () => {
  test("settles at once where nothing is under way, also if no member answers any more", async () => {
    const { fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    await backend.release(claim);
    for (const fake of fakes) fake.replyMs = Infinity;
    await backend.close();
  });

  test("waits for votes under way, and releases what they grant", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: "500ms" });
    for (const fake of fakes) fake.replyMs = 400;
    const attempt = backend.attempt(newClaim({ name, queues: true }));
    const closing = backend.close();
    await clock.advance(400);
    expect((await attempt).granted).toBe(false);
    await clock.advance(400);
    await closing;
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("waits for releases under way", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open({ memberWait: "500ms" });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const fake of fakes) fake.replyMs = 300;
    const releasing = backend.release(claim);
    let closed = false;
    const closing = backend.close().then(() => (closed = true));
    await clock.advance(299);
    expect(closed).toBe(false);
    await clock.advance(1);
    await closing;
    expect(await releasing).toBe("held");
  });

  test("does not wait long for a minority that does not answer, and resolves", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    fakes[1]!.replyMs = Infinity;
    expect(await backend.release(claim)).toBe("held");
    const closing = backend.close();
    await clock.advance(250);
    await closing;
  });

  test("retries where a member cannot be reached, as long as it waits", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const fake of fakes.slice(1)) fake.isCutOff = true;
    backend.release(claim).catch(() => {});
    const closing = backend.close();
    await clock.advance(1000);
    for (const fake of fakes) fake.isCutOff = false;
    await clock.advance(1000);
    await closing;
    expect(fakes.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("rejects after two seconds with what may be left, where a majority does not answer", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const fake of fakes.slice(1)) fake.replyMs = Infinity;
    backend.release(claim).catch(() => {});
    const closing = failure(backend.close());
    await clock.advance(2000);
    const { message, lock, fatal } = await closing;
    expect({ lock, fatal }).toEqual({ lock: name, fatal: false });
    expect(message).toMatch(/may be left.*2 of 3 members did not confirm within 2 s.*"closing": fake#2, fake#3/u);
    expect(await failure(backend.close())).toMatchObject({ message });
  });

  test("names the lock that a member says it could not let go of", async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    for (const { member } of fakes)
      member.close = () => Promise.reject(new LockBackendError("fake", "left-there", "it is still held"));
    const closing = failure(open().close());
    await clock.advance(2000);
    expect(await closing).toMatchObject({ lock: "left-there", message: expect.stringContaining('"left-there"') });
  });
});

test("S171: a member's doubt about one lease verifies that one only, and without an id all of them", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  let listening: Listener | undefined;
  const ids: string[] = [];
  const [{ member }] = fakes as [(typeof fakes)[0]];
  for (const fake of fakes) Object.assign(fake.member, { listen: () => undefined });
  const renew = member.renew.bind(member);
  Object.assign(member, {
    listen: (listener: Listener) => void (listening = listener),
    renew: (claims: readonly Claim[]) => {
      ids.push(...claims.map(({ name: lock }) => lock));
      return renew(claims);
    },
  });
  const backend = open();
  const lost: string[] = [];
  backend.listen?.({ lost: (id) => void lost.push(id), doubt: () => undefined });
  const votes: { id: string; ballot: bigint }[] = [];
  const vote = member.vote.bind(member);
  Object.assign(member, {
    vote: (claim: Claim, ballot: bigint) => {
      votes.push({ id: claim.id, ballot });
      return vote(claim, ballot);
    },
  });
  const [one, two] = [newClaim({ name: "one" }), newClaim({ name: "two" })];
  await granted(backend, one);
  await granted(backend, two);
  const [known] = votes as [{ id: string; ballot: bigint }];
  listening?.doubt(known.id);
  await clock.advance(1);
  expect(ids).toEqual(["one"]);
  listening?.doubt("of no claim");
  await clock.advance(1);
  expect(ids).toEqual(["one"]);
  for (const fake of fakes.slice(1)) await fake.member.forceRelease("one", known.ballot, "ops", "test");
  expect(lost).toEqual([]);
  listening?.doubt(known.id);
  await clock.advance(1);
  expect(lost).toEqual([one.id]);
  listening?.doubt();
  await clock.advance(1);
  expect(ids).toEqual(["one", "one", "two"]);
});

test("S171: however often a member doubts one lease, there is one request at a time, and the last doubt is answered", async () => {
  const { clock, fakes, open } = fakeQuorum(3);
  const [first, ...others] = fakes as [(typeof fakes)[0], (typeof fakes)[0]];
  let listening: Listener | undefined;
  let round: { readonly id: string; readonly ballot: bigint } | undefined;
  const vote = first.member.vote.bind(first.member);
  Object.assign(first.member, {
    listen: (listener: Listener) => void (listening = listener),
    vote: (claim: Claim, ballot: bigint) => {
      round = { id: claim.id, ballot };
      return vote(claim, ballot);
    },
  });
  for (const { member } of others) Object.assign(member, { listen: () => undefined });
  const backend = open();
  const lost: string[] = [];
  backend.listen?.({ lost: (id) => void lost.push(id), doubt: () => undefined });
  const claim = newClaim({ name: "one" });
  await granted(backend, claim);
  for (const fake of fakes) fake.replyMs = 5;
  for (let i = 0; i < 1000; i++) listening?.doubt(round?.id);
  expect(first.asked.renew).toBe(1);
  // The answer that is on its way does not know of this yet.
  for (const { store } of others) store.forceRelease("one", round!.ballot, "ops", "test");
  listening?.doubt(round?.id);
  await clock.advance(100);
  expect(first.asked.renew).toBe(2);
  expect(lost).toEqual([claim.id]);
});

for (const report of ["doubt", "doubt of all", "lost"] as const) {
  test(`S171: a report (${report}) that overtakes the last vote of a round is verified as soon as the round is won`, async () => {
    const { clock, fakes, open } = fakeQuorum(3);
    const [first, second, third] = fakes as [(typeof fakes)[0], (typeof fakes)[0], (typeof fakes)[0]];
    let listening: Listener | undefined;
    let round: { readonly id: string; readonly ballot: bigint } | undefined;
    const vote = first.member.vote.bind(first.member);
    Object.assign(first.member, {
      listen: (listener: Listener) => void (listening = listener),
      vote: (claim: Claim, ballot: bigint) => {
        round = { id: claim.id, ballot };
        return vote(claim, ballot);
      },
    });
    for (const { member } of [second, third]) Object.assign(member, { listen: () => undefined });
    const backend = open();
    const lost: string[] = [];
    backend.listen?.({ lost: (id) => void lost.push(id), doubt: () => undefined });
    third.isCutOff = true;
    second.replyMs = 50;
    const claim = newClaim({ name: "one" });
    const grant = granted(backend, claim);
    await clock.advance(10);
    // The first member loses it after its vote; the second vote, which wins the round, is still on its way.
    first.store.forceRelease("one", round!.ballot, "ops", "test");
    second.store.forceRelease("one", round!.ballot, "ops", "test");
    if (report === "lost") listening?.lost(round!.id, { kind: "forced", by: "ops", reason: "stuck" });
    else listening?.doubt(report === "doubt" ? round!.id : undefined);
    expect(first.asked.renew).toBe(0);
    await clock.advance(45);
    await grant;
    expect(first.asked.renew).toBe(1);
    await clock.advance(100);
    expect(lost).toEqual([claim.id]);
    await clock.advance(60_000);
    await backend.close();
  });
}
