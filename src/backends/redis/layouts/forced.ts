/** Who ended leases by force, and why, from the notes of our clients beside the locks. */
import type { Forced, Renewal } from "../../../contract/backend.ts";
import type { Connection } from "../connection.ts";
import { runScript } from "../scripts.ts";
import { forced, why } from "./generated/scripts.ts";
import { toForce, toForced } from "./notes.ts";
import { readOrHidden } from "./scan.ts";

export const GONE: Renewal = { held: false, reason: { kind: "gone" } };

/** `id`: as the note names the claim. Not to know why it is gone does not make it less gone. */
export async function whyGone(connection: Connection, notes: string, id: string): Promise<Renewal> {
  const reply = await runScript(connection, why, [notes], [id]).catch(() => "");
  const force = typeof reply === "string" ? toForce(reply) : undefined;
  return force === undefined ? GONE : { held: false, reason: { kind: "forced", ...force } };
}

/** `isNotes`: whether the notes are those of the lock that they name. Those of another prefix are notes of other locks. */
export async function forcedAt(
  connection: Connection,
  notes: string,
  isNotes: (name: string) => boolean,
): Promise<readonly Forced[]> {
  const [now, name, ended] = await readOrHidden(() => runScript(connection, forced, [notes], []));
  if (typeof now !== "number" || typeof name !== "string" || typeof ended !== "string") return [];
  return isNotes(name) ? toForced(name, now, ended) : [];
}
