/** `holdfast wait NAME`: waits until the lock is free, without taking it. */
import { setTimeout as sleep } from "node:timers/promises";

import type { Snapshot } from "../format-lock.ts";
import { formatMs } from "../../contract/duration.ts";
import { printable } from "../../contract/foreign.ts";
import { jitter } from "../../contract/random.ts";
import { ask, Silence } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { fenceOf } from "../fence-flag.ts";
import { ownHolder, readWait } from "../lock-flags.ts";
import { nameOf, type OpenStore, withLocks } from "../open-store.ts";
import { showProgress } from "../progress.ts";
import { Signals } from "../signals.ts";
import { only, snapshotJson } from "../format-lock.ts";

const POLL_MIN_MS = 50;
const POLL_MAX_MS = 1000;

export const waitCommand: Command = {
  spec: {
    name: "wait",
    summary: "Wait until a lock is free, without taking it",
    usage: ["wait NAME [--wait 5m | -n] [--fence N]"],
    about: [
      "Asks the store repeatedly, about once a second. A store that never answers gets five seconds, one that has answered before gets thirty; then the exit code is 69.",
      "Another process may take the lock right after: to do something while the lock is yours, use `holdfast run`.",
    ],
    flags: {
      nonblock: { short: "n", help: "do not wait: only say whether it is free" },
      wait: { short: "w", value: "DURATION", help: "give up after this long (default: wait for ever)" },
      fence: { value: "N", help: "wait only for the end of this lease, not of the leases after it" },
    },
    examples: [
      ["holdfast wait deploy --wait 10m && ./smoke-test.sh", "when the deploy has finished, on any machine"],
      ["holdfast wait deploy -n", "is it free? 0 yes, 75 no"],
    ],
    exits: [
      ["ok", "it is free, or the lease with that --fence has ended"],
      "usage",
      "backend",
      ["notAcquired", "it is still held, and the time is over"],
      ["signal", "signal n ended the waiting"],
    ],
    completes: "lock",
  },
  async run(io, flags) {
    const name = nameOf(flags, "wait");
    const waitMs = readWait(flags, "wait");
    const fence = fenceOf(flags, "wait");
    const signals = new Signals();
    try {
      const look = async (store: OpenStore): Promise<number> => {
        const query = async (): Promise<Snapshot> => only(name, await ask(store, name, signals.stop.signal));
        const progress = { name, holder: ownHolder(), waitMs, query, verb: "waiting for the end of" };
        const done = flags.has("quiet") ? () => {} : showProgress(io, progress);
        const startMs = performance.now();
        const { free, last } = await untilFree(query, fence, waitMs, signals.stop.signal).finally(done);
        const waitedMs = Math.round(performance.now() - startMs);
        if (signals.exitCode !== undefined) return signals.exitCode;
        if (flags.has("json")) io.json({ name, free, waitedMs, held: (snapshotJson(last) as { held: unknown }).held });
        else if (!free && !flags.has("quiet")) {
          io.note(`holdfast: ${printable(name)} is still held after ${formatMs(waitedMs)}`);
        }
        return free ? EXIT.ok : EXIT.notAcquired;
      };
      return await withLocks(io, flags, look, { stop: signals.stop.signal });
    } catch (error) {
      if (signals.exitCode !== undefined) return signals.exitCode;
      throw error;
    } finally {
      signals.dispose();
    }
  },
};

/** Waits for a store that is away for a while, but not for ever. If it is still away when the time is over, the answer is unknown: an error. */
async function untilFree(
  query: () => Promise<Snapshot>,
  fence: bigint | undefined,
  waitMs: number,
  stop: AbortSignal,
): Promise<{ free: boolean; last: Snapshot }> {
  const deadlineMs = performance.now() + waitMs;
  const silence = new Silence();
  for (let pauseMs = POLL_MIN_MS; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MAX_MS)) {
    try {
      const last = await query();
      silence.answered();
      const free = !last.held.some((one) => fence === undefined || one.fence === fence);
      if (free || performance.now() >= deadlineMs || stop.aborted) return { free, last };
    } catch (error) {
      if (stop.aborted || performance.now() >= deadlineMs || silence.isOver(error)) throw error;
    }
    const leftMs = Math.max(0, deadlineMs - performance.now());
    await sleep(Math.min(leftMs, jitter(pauseMs, 0.8, 1.2)), undefined, { signal: stop }).catch(() => {});
  }
}
