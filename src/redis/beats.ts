/** Sends waiters' signs of life: one call for those whose locks share a slot. */
import type { Connection } from "./connection.ts";
import { beat } from "./generated/beat.ts";
import type { Names } from "./names.ts";
import type { Waiter } from "./queue.ts";
import { runScript } from "./script.ts";

/** Answers in the order asked: a fence or an error as text, or a number (see beat.lua). Rejects when no answer came. */
export async function sendBeat(
  connection: Connection,
  names: Names,
  quarantineMs: number,
  portion: readonly Waiter[],
): Promise<readonly unknown[]> {
  const keys = portion.map(({ key }) => key);
  const marker = names.markerBeside(keys[0] as string, quarantineMs > 0);
  if (marker !== undefined) keys.push(marker);
  const args = [String(portion.length), String(quarantineMs), ...portion.map(({ claim }) => claim.id)];
  const reply = await runScript(connection, beat, keys, args);
  return Array.isArray(reply) ? reply : [];
}
