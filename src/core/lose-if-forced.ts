/**
 * News of a lease that is not renewed, so that no renewal will tell: was it ended by force? The store keeps for a while who did it and why,
 * and only that is proof. Loaded by the first such news.
 */
import { asked } from "../contract/answer.ts";
import type { Backend } from "../contract/backend.ts";
import type { Hold } from "./hold.ts";
import { checkedState } from "./snapshot.ts";

/** One after the other: there may be thousands. */
export async function loseIfForced(backend: Backend, holds: readonly Hold[]): Promise<void> {
  for (const hold of holds) if (hold.state === "held") await look(backend, hold).catch(() => {});
}

async function look(backend: Backend, hold: Hold): Promise<void> {
  const { forced } = checkedState(backend.name, await asked(() => backend.inspect(hold.claim.name)));
  const end = forced.find(({ fence }) => hold.hasFence(fence));
  if (end !== undefined) hold.lose({ kind: "forced", by: end.by, reason: end.reason });
}
