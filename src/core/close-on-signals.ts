/** Ends a process that was asked to stop: the locks are closed first, and then it ends as the signal wanted it to. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import { asked } from "../contract/answer.ts";
import { type Duration, toMs } from "../contract/duration.ts";
import { messageOf } from "../contract/errors.ts";
import { warn } from "../contract/warning.ts";
import type { CloseOnSignalsOptions, Locks } from "./api.ts";
import { checkObject } from "./options.ts";

const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"];
const GRACE: Duration = "10s";

/** On each listener of ours, whichever copy of this package it comes from: the others are the program's. */
const OURS = Symbol.for("holdfast.signals");

/**
 * Closes the locks when SIGTERM or SIGINT comes, and then lets the signal end the process. Nothing more is acquired, the signals of held
 * leases abort, and each lease is released when its work has ended. Then the signal is raised again, unless the program listens to it
 * too: then its own listener decides. Work that still runs after `grace` keeps its lease until the process is gone, and then until its
 * ttl is over: if it were released under running work, two could work at once. A second signal does not wait. Returns a function that
 * stops the listening.
 */
export function closeOnSignals(locks: Pick<Locks, "close">, options: CloseOnSignalsOptions = {}): () => void {
  const { signals: given = SIGNALS, grace = GRACE } = checkObject(options);
  if (typeof locks?.close !== "function")
    throw new ArgumentError(`Expected \`locks\` to have close(), got ${got(locks)}`);
  if (!Array.isArray(given) || given.length === 0) {
    throw new ArgumentError(`Expected \`signals\` to be a list such as ["SIGTERM"], got ${got(given)}`);
  }
  const signals = new Set<NodeJS.Signals>(given);
  const graceMs = toMs(grace, "grace", { minMs: 0, maxMs: Infinity });
  let isClosing = false;
  const listen = (signal: NodeJS.Signals): void => {
    // Asked now: one that listens once() no longer does when the locks are closed, and may still be at work.
    const isProgramsToo = process.listeners(signal).some((listener) => !(OURS in listener));
    const raise = (): void => {
      stop();
      if (!isProgramsToo && process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    if (isClosing) return raise();
    isClosing = true;
    void asked(() => locks.close({ grace: graceMs }))
      .catch((error: unknown) => warn("HOLDFAST_CLOSE", messageOf(error)))
      // A turn later: a warning is printed by then.
      .then(() => setImmediate(raise));
  };
  const hear = Object.assign(listen, { [OURS]: true });
  const stop = (): void => signals.forEach((signal) => process.off(signal, hear));
  try {
    // Before the program's own, to see them all.
    for (const signal of signals) process.prependListener(signal, hear);
  } catch (error) {
    stop();
    // Such as SIGKILL, which no process can hear.
    throw new ArgumentError(`Expected \`signals\` to be ones that a process can hear: ${messageOf(error)}`);
  }
  return stop;
}
