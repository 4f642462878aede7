/** Releases: how claims leave, and what they leave behind. */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { unexpected } from "./errors.ts";
import { CALL_FINISH, CALL_FORGET } from "./generated/sql.ts";
import type { LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { FENCE_MAX, toBytes } from "./records.ts";
import { minHoldText, type ReleaseBatches, toReleased } from "./release-batches.ts";
import type { Waiters } from "./waiting.ts";

/** The parts of the backend that a release uses. */
export interface ReleaseParts {
  readonly connection: Connection;
  readonly settings: Settings;
  readonly claims: LocalClaims;
  readonly waiters: Waiters;
  readonly batches: ReleaseBatches;
}

/**
 * "absent" is certain: the client libraries send nothing twice, and an attempt of the same claim that is still under way on another connection is
 * waited for. An outcome is kept in the same step.
 */
export async function release(
  { connection, settings, claims, waiters, batches }: ReleaseParts,
  claim: Claim,
  outcome?: Outcome,
): Promise<Released> {
  waiters.forget(claim.id);
  const was = await claims.leave(claim, () =>
    outcome === undefined ? batches.release(claim) : finish(connection, settings, claim, outcome),
  );
  // Queued or granted by an attempt that was answered meanwhile.
  waiters.forget(claim.id);
  claims.left(claim);
  return was;
}

async function finish(
  connection: Connection,
  { quarantineMs }: Settings,
  claim: Claim,
  outcome: Outcome,
): Promise<Released> {
  const values = [toBytes(claim.name), claim.id, minHoldText(claim), String(quarantineMs), ...outcomeValues(outcome)];
  const { answers } = await connection.ask(CALL_FINISH, values);
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
