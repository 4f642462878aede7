/** Sends waiters' signs of life: one call for those whose locks share a slot. */
import type { Connection } from "./connection.ts";
import { beat } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import type { Waiter } from "./waiting.ts";
import { isTryAgain, runScript } from "./script.ts";

/** Answers in the order asked (see beat.lua). Rejects when no answer came. */
export async function sendBeat(
  connection: Connection,
  names: Names,
  quarantine: string,
  portion: readonly Waiter[],
): Promise<readonly unknown[]> {
  const keys = portion.map(({ key }) => key);
  const marker = names.markerBeside(keys[0] as string, quarantine !== "0");
  if (marker !== undefined) keys.push(marker);
  const args = [String(portion.length), quarantine, ...portion.map(({ claim }) => claim.id)];
  try {
    const reply = await runScript(connection, beat, keys, args);
    return Array.isArray(reply) ? reply : [];
  } catch (error) {
    if (!isTryAgain(error) || portion.length === 1) throw error;
    // A slot is half-way moved: each is asked about alone, and who cannot be asked about yet is asked about later.
    const one = async (waiter: Waiter): Promise<unknown> =>
      (await sendBeat(connection, names, quarantine, [waiter]))[0];
    return await Promise.all(portion.map((waiter) => one(waiter).catch(() => undefined)));
  }
}
