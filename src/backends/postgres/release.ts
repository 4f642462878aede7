/** Releases: how claims leave. */
import type { Claim, Released } from "../../contract/backend.ts";
import type { Connection } from "./connection.ts";
import { unexpected } from "./errors.ts";
import { CALL_RELEASE } from "./generated/sql.ts";
import type { LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { toBytes } from "./records.ts";
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
 * waited for.
 */
export async function release(
  connection: Connection,
  { quarantineMs }: Settings,
  claims: LocalClaims,
  waiters: Waiters,
  claim: Claim,
): Promise<Released> {
  waiters.forget(claim.id);
  const values = [toBytes(claim.name), claim.id, minHoldText(claim), String(quarantineMs)];
  const { answers } = await claims.leave(claim, () => connection.ask(CALL_RELEASE, values));
  // Queued or granted by an attempt that was answered meanwhile.
  waiters.forget(claim.id);
  claims.left(claim);
  return toReleased(claim.name, answers[0]);
}
