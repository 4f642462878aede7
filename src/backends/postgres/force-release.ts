/** Ends a lease from outside, by its fence. */
import { clipped, HOLDER_MAX, REASON_MAX } from "../../contract/foreign.ts";
import type { Connection } from "./connection.ts";
import { unexpected } from "./errors.ts";
import { CALL_FORCE_RELEASE } from "./generated/sql.ts";
import type { Settings } from "./options.ts";
import { FENCE_MAX, toBytes } from "./records.ts";
import { toAscii } from "./who.ts";

/** Who ends a lease, and why, as it is kept. */
export function toForcer(by: string, reason: string): string {
  return toAscii({ by: clipped(by, HOLDER_MAX), reason: clipped(reason, REASON_MAX) });
}

export async function forceRelease(
  connection: Connection,
  { quarantineMs }: Settings,
  lease: { readonly name: string; readonly fence: bigint },
  by: string,
  reason: string,
): Promise<boolean> {
  const { name, fence } = lease;
  // No lease has such a fence, and the server could not read it.
  if (fence < 0n || fence > FENCE_MAX) return false;
  const { answers } = await connection.ask(CALL_FORCE_RELEASE, [
    toBytes(name),
    String(fence),
    toForcer(by, reason),
    String(quarantineMs),
  ]);
  if (answers[0] !== "yes" && answers[0] !== "no") throw unexpected(name);
  return answers[0] === "yes";
}
