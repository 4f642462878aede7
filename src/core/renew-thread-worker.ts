/** The worker thread of `renew: "thread"`: renews what it is told to, every third of a ttl, and writes down since when. */
import { parentPort, workerData } from "node:worker_threads";
import type { Claim, Renewer } from "../contract/backend.ts";
import { systemClock } from "../contract/clock.ts";
import { driftMs } from "../contract/trust.ts";
import { messageOf } from "../contract/errors.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./renew-thread.ts";

interface Kept {
  readonly claim: Claim;
  readonly fence: bigint;
  readonly view: Float64Array;
  readonly ttlMs: number;
  readonly untilMs: number;
  timer: NodeJS.Timeout | undefined;
}

const kept = new Map<string, Kept>();
const { module, data } = workerData as WorkerStart;
const opening = import(module).then((backend: { openRenewer(data: unknown): Promise<Renewer> }) =>
  backend.openRenewer(data),
);

opening.then(
  () => tell({ ready: true }),
  // In words: not every error can be sent to another thread.
  (cause: unknown) => tell({ failed: messageOf(cause) }),
);

parentPort!.on("message", (message: ToWorker) => {
  if ("keep" in message) {
    const { keep: claim, fence, slot, ttlMs, untilMs } = message;
    const hold: Kept = { claim, fence, view: new Float64Array(slot), ttlMs, untilMs, timer: undefined };
    kept.set(claim.id, hold);
    // One that another worker kept before this one may be due, or overdue.
    schedule(hold, Math.max(0, hold.view[0]! + ttlMs / 3 - nowMs()));
  } else if ("drop" in message) {
    const hold = kept.get(message.drop);
    clearTimeout(hold?.timer);
    kept.delete(message.drop);
  } else if ("renew" in message) {
    const hold = kept.get(message.renew);
    if (hold !== undefined) schedule(hold, 0);
  } else {
    for (const hold of kept.values()) clearTimeout(hold.timer);
    kept.clear();
    void opening.then((renewer) => renewer.close()).finally(() => parentPort!.close());
  }
});

function schedule(hold: Kept, afterMs: number): void {
  clearTimeout(hold.timer);
  hold.timer = setTimeout(() => void renew(hold), afterMs * (0.9 + 0.1 * Math.random()));
}

async function renew(hold: Kept): Promise<void> {
  const sentAtMs = nowMs();
  const wallLeadMs = systemClock.wall() - sentAtMs;
  if (sentAtMs >= hold.untilMs) return;
  let held: boolean | "unknown" = "unknown";
  let reason = "";
  try {
    const renewer = await opening;
    const [renewal] = await renewer.renew([hold.claim], [hold.fence]);
    held = renewal?.held ?? "unknown";
    if (renewal?.held === false) reason = messageOf(renewal.reason);
  } catch {
    // Unknown is neither yes nor no: asked again soon, until the main thread's instant passes.
  }
  if (!kept.has(hold.claim.id)) return;
  if (held === false) {
    kept.delete(hold.claim.id);
    tell({ lost: hold.claim.id, reason });
    return;
  }
  // The slot only moves forward while the old trust is whole: a yes that comes too late must not revive the lease.
  const trustedUntilMs = hold.view[0]! + hold.ttlMs - driftMs(hold.ttlMs);
  if (held === true && nowMs() < trustedUntilMs) {
    hold.view[1] = wallLeadMs;
    hold.view[0] = sentAtMs;
  }
  schedule(hold, held === true ? hold.ttlMs / 3 : Math.min(1000, hold.ttlMs / 10));
}

function tell(message: FromWorker): void {
  parentPort!.postMessage(message);
}

/** The clock that the main thread can compare with its own. */
function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
