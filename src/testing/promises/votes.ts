/** Promises of a quorum's members: they take a proposed fence, each at most once, and never one that is not above the last. */
import assert from "node:assert/strict";
import type { Backend, Claim, Member, Vote } from "../../contract/backend.ts";
import type { Trial } from "../trial.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const votePromises: readonly ConformancePromise[] = [
  promise("votes for a ballot when the lock is free, and for the same ballot again", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.claim();
    const ballot = await elect(trial, a, claim);
    assert.equal((await vote(a, claim, ballot)).vote, "granted", "the reply may have been lost");
    assert.deepEqual(
      (await b.query(trial.name)).held.map(({ fence }) => fence),
      [ballot],
      "the ballot is the fence",
    );
  }),

  promise("votes for no other claim while the lock is held, and says who holds it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const ballot = await elect(trial, a, trial.claim({ holder: "web-3:812" }));
    const answer = await vote(b, trial.claim(), ballot + 1_000_000n);
    assert.ok(answer.vote === "held", `voted ${answer.vote}`);
    assert.equal(answer.by, "web-3:812");
    assert.equal(answer.fence, ballot);
    assert.ok(answer.remainingMs > 0, "says for how long at most");
    assert.deepEqual((await b.query(trial.name)).pending, [], "a vote never queues");
  }),

  promise("never votes for a ballot that is not above every fence before it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [first, second] = [trial.claim(), trial.claim()];
    const ballot = await elect(trial, a, first);
    await a.release(first);
    for (const low of [ballot - 1n, ballot]) {
      const answer = await vote(b, second, low);
      assert.ok(answer.vote === "low", `voted ${answer.vote} for ${low} after ${ballot}`);
      assert.ok(answer.fence >= ballot, "says what to go above");
    }
    assert.ok((await elect(trial, b, second)) > ballot);
  }),

  promise("keeps a vote for the ttl, renews it, and takes it back on release", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief();
    const votedMs = trial.clock.now();
    const ballot = await elect(trial, a, claim);
    await trial.sleep(trial.ttlMs / 2);
    const renewedMs = trial.clock.now();
    const [renewal] = await a.renew([claim]);
    trial.inTime(votedMs);
    assert.equal(renewal?.held, true);
    await trial.sleep(trial.ttlMs * 0.6);
    const rival = await vote(b, trial.claim(), ballot + 1_000_000n);
    trial.inTime(renewedMs);
    assert.equal(rival.vote, "held", "renewed, so still held");
    assert.equal(await a.release(claim), "held");
    await elect(trial, b, trial.claim());
  }),
];

/** Proposes as a quorum does: the clock in µs, then above whatever the member answers. */
async function elect(trial: Trial, backend: Backend, claim: Claim): Promise<bigint> {
  let ballot = BigInt(trial.clock.wall()) * 1000n;
  return trial.eventually("a ballot wins", async () => {
    const answer = await vote(backend, claim, ballot);
    if (answer.vote === "granted") return ballot;
    if (answer.vote !== "low") assert.fail(`the lock is free, but the vote was ${answer.vote}`);
    assert.ok(answer.fence >= ballot, `low, though ${ballot} is above ${answer.fence}`);
    ballot = answer.fence + 1n;
    return undefined;
  });
}

function vote(backend: Backend, claim: Claim, ballot: bigint): Promise<Vote> {
  const member = backend as Backend & Partial<Member>;
  if (member.vote === undefined) assert.fail("the backend has no vote(), so it cannot be a member");
  return member.vote(claim, ballot);
}
