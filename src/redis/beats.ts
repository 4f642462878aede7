/** Sends waiters' signs of life in portions. An answer that does not come is no news. */
import { portions } from "./batch.ts";
import type { Connection } from "./connection.ts";
import { beat } from "./generated/beat.ts";
import type { Names } from "./names.ts";
import type { Waiter } from "./queue.ts";
import { runScript } from "./script.ts";

export async function beatAll(
  connection: Connection,
  names: Names,
  quarantineMs: number,
  waiters: readonly Waiter[],
): Promise<readonly (string | number | undefined)[]> {
  const answers = new Map<Waiter, string | number>();
  const ask = async (portion: readonly Waiter[]): Promise<void> => {
    const keys = portion.map(({ key }) => key);
    if (quarantineMs > 0) keys.push(names.marker(keys[0] as string));
    const args = [String(portion.length), String(quarantineMs), ...portion.map(({ claim }) => claim.id)];
    const reply = await runScript(connection, beat, keys, args);
    if (!Array.isArray(reply)) return;
    for (const [index, waiter] of portion.entries()) {
      const answer: unknown = reply[index];
      if (typeof answer === "string" || typeof answer === "number") answers.set(waiter, answer);
    }
  };
  await Promise.allSettled(portions(waiters, connection.topology, names).map(ask));
  return waiters.map((waiter) => answers.get(waiter));
}
