// Renewed from a worker thread: the lease outlives an event loop that is blocked for longer than its ttl.
import { locks } from "../../lib/locks";

export async function POST(): Promise<Response> {
  const ttlMs = 8000;
  const blocked = async (): Promise<string> => {
    const endMs = performance.now() + 2.5 * ttlMs;
    while (performance.now() < endMs);
    return "held";
  };
  return new Response(await (await locks()).run("report", { ttl: ttlMs, renew: "thread", wait: "60s" }, blocked));
}
