/** One attempt with the answer that a check expects; another answer fails, and says who holds the lock. */
import assert from "node:assert/strict";
import type { Backend, Claim, Granted, Refused } from "../contract/backend.ts";

type Attempts = Pick<Backend, "attempt">;

export async function granted(backend: Attempts, claim: Claim): Promise<Granted> {
  const answer = await backend.attempt(claim);
  if (!answer.granted) assert.fail(`expected the lease, but the lock is held by ${describeHolders(answer)}`);
  assert.equal(typeof answer.fence, "bigint", "a fence is a bigint");
  assert.ok(
    Number.isInteger(answer.run) && answer.run >= 1,
    `a run is a whole number of at least 1, not ${answer.run}`,
  );
  return answer;
}

export async function refused(backend: Attempts, claim: Claim): Promise<Refused> {
  const answer = await backend.attempt(claim);
  if (answer.granted) assert.fail(`expected a refusal, but got fence ${answer.fence}`);
  return answer;
}

function describeHolders({ heldBy, position }: Refused): string {
  const holders =
    heldBy.map(({ holder, fence }) => `${holder} (fence ${fence})`).join(", ") || "a holder that is not named";
  return position === undefined ? holders : `${holders}, position ${position} in the queue`;
}
