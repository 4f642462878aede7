/** Keys of a whole server, and what is read of each. */
import type { Primary } from "../connection.ts";

const SCAN_COUNT = "512";

export async function* scan(primary: Primary, pattern: string, type: string): AsyncGenerator<readonly string[]> {
  let cursor = "0";
  const seen = new Set<string>();
  do {
    const reply = await primary.command(["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT, "TYPE", type]);
    if (!Array.isArray(reply) || !Array.isArray(reply[1])) throw new Error("unexpected reply to SCAN");
    cursor = String(reply[0]);
    // SCAN may return a key twice.
    const fresh = reply[1].map(String).filter((key) => !seen.has(key));
    fresh.forEach((key) => seen.add(key));
    if (fresh.length > 0) yield fresh;
  } while (cursor !== "0");
}

/** A key that has become something else since, or is hidden from this user, is not shown. */
export async function readOrHidden(ask: () => Promise<unknown>): Promise<readonly unknown[]> {
  const reply = await ask().catch((error: unknown) => {
    if (error instanceof Error && /WRONGTYPE|NOPERM/u.test(error.message)) return [];
    throw error;
  });
  return Array.isArray(reply) ? reply : [];
}
