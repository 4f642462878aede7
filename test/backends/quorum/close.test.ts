/** close() of a quorum: nothing of ours is left at most members, or it says what may be. And news of one lease is about that one only. */
import { describe, expect, test } from "vitest";
import type { Claim, Listener } from "../../../src/contract/backend.ts";
import { newClaim } from "./servers.ts";
import { failure, granted, play } from "./stage.ts";

const name = "closing";

describe("S132: close()", () => {
  test("settles at once where nothing is under way, also if no member answers any more", async () => {
    const { stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    await backend.release(claim);
    for (const stage of stages) stage.replyMs = Infinity;
    await backend.close();
  });

  test("waits for votes under way, and gives back what they grant", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: "500ms" });
    for (const stage of stages) stage.replyMs = 400;
    const attempt = backend.attempt(newClaim({ name, queues: true }));
    const closing = backend.close();
    await clock.advance(400);
    expect((await attempt).granted).toBe(false);
    await clock.advance(400);
    await closing;
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("waits for releases under way", async () => {
    const { clock, stages, open } = play(3);
    const backend = open({ memberWait: "500ms" });
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of stages) stage.replyMs = 300;
    const releasing = backend.release(claim);
    let closed = false;
    const closing = backend.close().then(() => (closed = true));
    await clock.advance(299);
    expect(closed).toBe(false);
    await clock.advance(1);
    await closing;
    expect(await releasing).toBe("held");
  });

  test("does not wait for long for a minority that does not answer, and says nothing of it", async () => {
    const { clock, stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    stages[1]!.replyMs = Infinity;
    expect(await backend.release(claim)).toBe("held");
    const closing = backend.close();
    await clock.advance(250);
    await closing;
  });

  test("goes on trying where a member cannot be reached, as long as it waits", async () => {
    const { clock, stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of stages.slice(1)) stage.isCutOff = true;
    backend.release(claim).catch(() => {});
    const closing = backend.close();
    await clock.advance(1000);
    for (const stage of stages) stage.isCutOff = false;
    await clock.advance(1000);
    await closing;
    expect(stages.map(({ holders }) => holders)).toEqual(["", "", ""]);
  });

  test("rejects after two seconds with what may be left, where most members do not answer", async () => {
    const { clock, stages, open } = play(3);
    const backend = open();
    const claim = newClaim({ name });
    await granted(backend, claim);
    for (const stage of stages.slice(1)) stage.replyMs = Infinity;
    backend.release(claim).catch(() => {});
    const closing = failure(backend.close());
    await clock.advance(2000);
    const { message, lock, fatal } = await closing;
    expect({ lock, fatal }).toEqual({ lock: name, fatal: false });
    expect(message).toMatch(/may be left.*2 of 3 members did not answer within 2 s.*"closing": stage#2, stage#3/u);
    expect(await failure(backend.close())).toMatchObject({ message });
  });
});

test("S171: a member's doubt about one lease asks about that one only, and without a name about all", async () => {
  const { clock, stages, open } = play(3);
  let told: Listener | undefined;
  const ids: string[] = [];
  const [{ member }] = stages as [(typeof stages)[0]];
  for (const stage of stages) Object.assign(stage.member, { listen: () => undefined });
  const renew = member.renew.bind(member);
  Object.assign(member, {
    listen: (listener: Listener) => void (told = listener),
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
  told?.doubt(known.id);
  await clock.advance(1);
  expect(ids).toEqual(["one"]);
  told?.doubt("of nobody");
  await clock.advance(1);
  expect(ids).toEqual(["one"]);
  for (const stage of stages.slice(1)) await stage.member.forceRelease("one", known.ballot, "ops", "test");
  expect(lost).toEqual([]);
  told?.doubt(known.id);
  await clock.advance(1);
  expect(lost).toEqual([one.id]);
  told?.doubt();
  await clock.advance(1);
  expect(ids).toEqual(["one", "one", "two"]);
});

test("S171: however often a member doubts one lease, there is one question at a time, and the last doubt is answered", async () => {
  const { clock, stages, open } = play(3);
  const [first, ...others] = stages as [(typeof stages)[0], (typeof stages)[0]];
  let told: Listener | undefined;
  let round: { readonly id: string; readonly ballot: bigint } | undefined;
  const vote = first.member.vote.bind(first.member);
  Object.assign(first.member, {
    listen: (listener: Listener) => void (told = listener),
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
  for (const stage of stages) stage.replyMs = 5;
  for (let i = 0; i < 1000; i++) told?.doubt(round?.id);
  expect(first.asked.renew).toBe(1);
  // The answer that is on its way does not know of this yet.
  for (const { store } of others) store.forceRelease("one", round!.ballot, "ops", "test");
  told?.doubt(round?.id);
  await clock.advance(100);
  expect(first.asked.renew).toBe(2);
  expect(lost).toEqual([claim.id]);
});

for (const news of ["doubt", "doubt of all", "lost"] as const) {
  test(`S171: news of a round that overtakes its last vote (${news}) is heeded as soon as it is won`, async () => {
    const { clock, stages, open } = play(3);
    const [first, second, third] = stages as [(typeof stages)[0], (typeof stages)[0], (typeof stages)[0]];
    let told: Listener | undefined;
    let round: { readonly id: string; readonly ballot: bigint } | undefined;
    const vote = first.member.vote.bind(first.member);
    Object.assign(first.member, {
      listen: (listener: Listener) => void (told = listener),
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
    if (news === "lost") told?.lost(round!.id, "broken by force");
    else told?.doubt(news === "doubt" ? round!.id : undefined);
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
