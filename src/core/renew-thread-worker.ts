/** The worker thread of `renew: "thread"`: renews what it is given, every third of a ttl, and writes down since when. */
import { parentPort, workerData } from "node:worker_threads";
import { driftMs, readCause, readRenewal } from "../contract/answer.ts";
import type { Claim, Renewal, Renewer } from "../contract/backend.ts";
import { systemClock } from "../contract/clock.ts";
import { machineMs } from "../contract/machine-clock.ts";
import { messageOf } from "../contract/errors.ts";
import { jitter } from "../contract/random.ts";
import { asked } from "../contract/answer.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./renew-thread.ts";
import { ThreadSlot } from "./renew-thread-slot.ts";

interface Kept {
  readonly claim: Claim;
  readonly fence: bigint;
  readonly slot: ThreadSlot;
  readonly ttlMs: number;
  readonly untilMs: number;
  timer: NodeJS.Timeout | undefined;
  /** When the last question left whose answer is not here yet; -Infinity when none is out. */
  askedAtMs: number;
  /** Renewals in a row without an answer. */
  failures: number;
}

const kept = new Map<string, Kept>();
const { module, data } = workerData as WorkerStart;
/** Not there before it can be asked: questions that would only wait for it are not sent. */
let renewer: Renewer | undefined;
const opening = import(module).then((backend: { openRenewer(data: unknown): Promise<Renewer> }) =>
  backend.openRenewer(data),
);

opening.then(
  (opened) => {
    renewer = opened;
    for (const hold of kept.values()) begin(hold);
    tell({ ready: true });
  },
  // As text: not every error can be sent to another thread.
  (cause: unknown) => tell({ failed: messageOf(cause) }),
);

parentPort!.on("message", (message: ToWorker) => {
  if ("keep" in message) {
    const { keep: claim, fence, slot: memory, ttlMs, untilMs } = message;
    const slot = new ThreadSlot(memory);
    // Kept for another ttl until now.
    clearTimeout(kept.get(claim.id)?.timer);
    const hold: Kept = { claim, fence, slot, ttlMs, untilMs, timer: undefined, askedAtMs: -Infinity, failures: 0 };
    kept.set(claim.id, hold);
    begin(hold);
  } else if ("drop" in message) {
    const hold = kept.get(message.drop);
    clearTimeout(hold?.timer);
    kept.delete(message.drop);
  } else if ("renew" in message) {
    const hold = kept.get(message.renew);
    // An answer that is on its way may be older than the doubt. For a caller that only checks, it is good enough.
    if (hold !== undefined && (message.afresh || !isAsking(hold))) schedule(hold, 0);
  } else {
    for (const hold of kept.values()) clearTimeout(hold.timer);
    kept.clear();
    // Deno's has no close(): there it ends when the main thread ends it.
    void opening.then((opened) => opened.close()).finally(() => parentPort!.close?.());
  }
});

/** One that another worker kept before this one may be due, or overdue, or the main thread waits to hear of it. */
function begin(hold: Kept): void {
  const { slot, ttlMs } = hold;
  schedule(hold, slot.isWanted ? 0 : Math.max(0, slot.atMs + ttlMs / 3 - machineMs()));
}

function schedule(hold: Kept, afterMs: number): void {
  clearTimeout(hold.timer);
  if (renewer === undefined) return;
  hold.timer = setTimeout(ask, jitter(afterMs, 0.9, 1), hold, renewer);
}

/** True while an answer is out that may still come, as for the holds of the main thread. */
function isAsking({ askedAtMs, ttlMs }: Kept): boolean {
  return machineMs() < askedAtMs + ttlMs / 3;
}

function isTrusted({ slot, ttlMs, untilMs }: Kept, nowMs: number): boolean {
  return nowMs < untilMs && nowMs < slot.atMs + ttlMs - driftMs(ttlMs);
}

interface Sent {
  readonly atMs: number;
  /** The same instant by this thread's own clock, which is the backend's. */
  readonly localMs: number;
}

function ask(hold: Kept, open: Renewer): void {
  const atMs = machineMs();
  // What cannot be believed any more is not kept in the store either.
  if (!isTrusted(hold, atMs)) return;
  const sent: Sent = { atMs, localMs: systemClock.now() };
  hold.askedAtMs = atMs;
  // Asked for again when there is no answer by then. One that comes later counts all the same.
  schedule(hold, hold.ttlMs / 3);
  asked(() => open.renew([hold.claim], [hold.fence])).then(
    (answers) => hear(hold, sent, answers),
    // Unknown is neither yes nor no: asked again soon, while the lease is trusted.
    (cause: unknown) => hear(hold, sent, undefined, cause),
  );
}

function hear(hold: Kept, sent: Sent, answers: readonly Renewal[] | undefined, failed?: unknown): void {
  const { claim, slot, ttlMs } = hold;
  if (kept.get(claim.id) !== hold) return;
  const read = readRenewal(answers, 0, sent.localMs, systemClock.now());
  const said = typeof read === "object" && "wantedFromMs" in read ? read.wantedFromMs : read;
  if (typeof said === "object") {
    clearTimeout(hold.timer);
    kept.delete(claim.id);
    tell({ lost: claim.id, reason: said.gone });
    return;
  }
  // The slot only moves forward while the old trust is whole: a yes that comes too late must not revive the lease.
  if (said !== undefined && isTrusted(hold, machineMs())) {
    // A proof may be older than its question.
    slot.confirm(sent.atMs - Math.max(0, sent.localMs - said));
  }
  noteTrouble(hold, said === undefined ? hold.failures + 1 : 0, failed ?? readCause(answers, 0));
  // A later question is out: its own answer decides when the next one goes.
  if (hold.askedAtMs !== sent.atMs) return;
  hold.askedAtMs = -Infinity;
  schedule(hold, said === undefined ? Math.min(1000, ttlMs / 10) : ttlMs / 3);
}

/** For the words of a loss. As text: not every error can be sent to another thread. */
function noteTrouble(hold: Kept, failures: number, cause: unknown): void {
  if (hold.failures === failures) return;
  hold.failures = failures;
  tell({ troubled: hold.claim.id, failures, why: messageOf(cause) });
}

function tell(message: FromWorker): void {
  parentPort!.postMessage(message);
}
