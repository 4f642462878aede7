/** Ends a lease from outside, by its fence: also one of ShedLock's own. */
import type { Connection } from "../postgres/connection.ts";
import { forcedBy } from "./rows.ts";
import type { Statements } from "./statements.ts";

export async function forceRelease(
  connection: Connection,
  { forceRelease: statement }: Statements,
  lease: { readonly name: string; readonly fence: bigint },
  by: string,
  reason: string,
): Promise<boolean> {
  const { name, fence } = lease;
  // No lease has such a fence or such a name, and the server could not read it.
  if (fence < 0n || fence >= 2n ** 63n || name.includes("\0")) return false;
  const { answers } = await connection.ask(statement, [name, String(fence), forcedBy(by, reason)]);
  return answers[0] === "yes";
}
