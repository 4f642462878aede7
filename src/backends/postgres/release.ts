/** Releases: how claims leave, and what they leave behind. */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { unexpected } from "./errors.ts";
import { CALL_FINISH, CALL_FORGET, CALL_RELEASE } from "./generated/sql.ts";
import type { LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { FENCE_MAX, toBytes } from "./records.ts";
import type { Waiters } from "./waiting.ts";

/** -1: a process that resumes another's lease need not know its terms, so those of the store count. */
export function minHoldText({ minHoldMs, resumes }: Claim): string {
  return resumes === true ? "-1" : String(minHoldMs);
}

export function toReleased(name: string, answer: unknown): Released {
  if (answer === "held" || answer === "queued" || answer === "absent") return answer;
  throw unexpected(name);
}

/**
 * "absent" is certain: the client libraries send nothing twice, and an attempt of the same claim that is still under way on another connection is
 * waited for. An outcome is kept in the same step.
 */
export async function release(
  connection: Connection,
  { quarantineMs }: Settings,
  claims: LocalClaims,
  waiters: Waiters,
  claim: Claim,
  outcome?: Outcome,
): Promise<Released> {
  waiters.forget(claim.id);
  const values = [toBytes(claim.name), claim.id, minHoldText(claim), String(quarantineMs)];
  const { answers } = await claims.leave(claim, () =>
    outcome === undefined
      ? connection.ask(CALL_RELEASE, values)
      : connection.ask(CALL_FINISH, [...values, ...outcomeValues(outcome)]),
  );
  // Queued or granted by an attempt that was answered meanwhile.
  waiters.forget(claim.id);
  claims.left(claim);
  return toReleased(claim.name, answers[0]);
}

function outcomeValues({ fence, keepMs, value }: Outcome): readonly string[] {
  return [String(fence), String(Math.ceil(keepMs)), toBytes(value)];
}

/** Removes the outcome of the lease with this fence. */
export async function forget(connection: Connection, name: string, fence: bigint): Promise<boolean> {
  // No lease has such a fence, and the server could not read it.
  if (fence < 0n || fence > FENCE_MAX) return false;
  const { answers } = await connection.ask(CALL_FORGET, [toBytes(name), String(fence)]);
  if (answers[0] !== "yes" && answers[0] !== "no") throw unexpected(name);
  return answers[0] === "yes";
}
