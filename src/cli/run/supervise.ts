/**
 * Runs a command for as long as its lease is trusted: SIGTERM at the deadline − grace, SIGKILL just before the deadline,
 * to everything it started. So the command is dead before another process may start.
 */
import { constants } from "node:os";

import { machineMs } from "../../contract/machine-clock.ts";
import type { Lease } from "../../core/api.ts";
import { removeCgroup } from "./cgroup.ts";
import { endFamily, type Family, leftovers, signalFamily, signalMembers } from "./process-tree.ts";
import { type Ended, type Gated, type GatedOptions, startGated } from "./gated-start.ts";
import { Warden } from "./warden.ts";

export interface SuperviseOptions extends GatedOptions {
  readonly lease: Lease;
  readonly ttlMs: number;
  readonly graceMs: number;
  readonly maxHoldMs: number | undefined;
  /** Makes the lease live as long as these processes do, where the store can. Called before the command begins. */
  readonly tie: (pids: readonly number[]) => void;
  /** One that was started ahead of time. */
  readonly warden?: Warden | undefined;
  /** For people. */
  readonly note: (line: string) => void;
  /** Called once the command can be signalled. */
  readonly running: (child: Running) => void;
}

export interface Running {
  /** Passes a signal that holdfast got on to the command. */
  forward(signal: NodeJS.Signals): void;
}

export interface Outcome {
  /** How the command ended, as a shell would say: its code, or 128 + the signal's number. */
  readonly code: number;
  /** Why it was ended, if its lease was. */
  readonly lost: string | undefined;
}

/** Resolves when nothing that the command started is left, except daemons. */
export async function supervise(options: SuperviseOptions): Promise<Outcome> {
  const warden = options.warden ?? new Warden();
  warden.events = { replaced: (pid) => options.tie([pid]), trouble: (message) => options.note(message) };
  try {
    if (warden.pid === undefined) throw new Error("the warden process could not be started");
    const child = await startGated(options);
    try {
      return await new Supervisor(options, warden, child).run();
    } finally {
      if (child.family.cgroup !== undefined) removeCgroup(child.family.cgroup);
    }
  } finally {
    warden.dismiss();
  }
}

// A terminal sends these to the whole foreground group, the command included: a second copy would count as a second Ctrl-C.
const FROM_TERMINAL = new Set<NodeJS.Signals>(["SIGINT", "SIGQUIT"]);

class Supervisor {
  readonly #options: SuperviseOptions;
  readonly #warden: Warden;
  readonly #child: Gated;
  readonly #family: Family;
  /** SIGKILL this much before the deadline: it takes a moment until all are dead. */
  readonly #killEarlyMs: number;
  readonly #startedAtMs = machineMs();
  #deadlineMs = 0;
  #askedToStop = false;
  #lost: string | undefined;
  #killing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SuperviseOptions, warden: Warden, child: Gated) {
    this.#options = options;
    this.#warden = warden;
    this.#child = child;
    this.#family = child.family;
    this.#killEarlyMs = Math.min(100, options.ttlMs / 20);
  }

  async run(): Promise<Outcome> {
    const { lease, tie, running } = this.#options;
    const onLost = (): void => this.#kill(reasonOf(lease));
    lease.signal.addEventListener("abort", onLost);
    try {
      this.#warden.watch(this.#family);
      tie([this.#family.pid, ...(this.#warden.pid === undefined ? [] : [this.#warden.pid])]);
      this.#look();
      if (lease.signal.aborted) onLost();
      else this.#child.open();
      running({ forward: (signal) => this.#forward(signal) });
      const ended = await this.#child.ended;
      // While we were stopped the warden ended the command: it has no other way to report that.
      if (ended.signal === "SIGKILL" && this.#isTooLate(machineMs())) this.#lost ??= this.#whyEnding(0);
      await this.#leftovers();
      // A daemon may outlive its command, but not the lease: it was asked to stop too, and may take its time, or not care.
      if (this.#lost !== undefined) this.#kill(this.#lost);
      await this.#killing;
      return { code: exitCode(ended), lost: this.#lost };
    } finally {
      clearTimeout(this.#timer);
      lease.signal.removeEventListener("abort", onLost);
    }
  }

  /** Learns the deadline, sends it to the warden, and acts when it is near. */
  #look(): void {
    const { lease, graceMs, ttlMs } = this.#options;
    const nowMs = machineMs();
    // A renewal that comes now comes too late: the warden has ended the command, or is about to.
    if (this.#isTooLate(nowMs)) return this.#kill(this.#whyEnding(0));
    const remainingMs = lease.remaining();
    // 0 is doubt, which a renewal is about to settle, or the end, which the signal reports. Once asked to stop, it stops.
    if (remainingMs > 0 && !this.#askedToStop && nowMs + remainingMs > this.#deadlineMs) {
      this.#deadlineMs = nowMs + remainingMs;
      this.#warden.until(this.#deadlineMs - this.#killEarlyMs);
    }
    const leftMs = this.#deadlineMs - nowMs;
    if (leftMs <= this.#killEarlyMs) return this.#kill(this.#whyEnding(leftMs));
    if (leftMs <= graceMs) this.#askToStop(leftMs);
    const nextMs = (leftMs > graceMs ? leftMs - graceMs : leftMs - this.#killEarlyMs) + 1;
    this.#timer = setTimeout(() => this.#look(), Math.max(1, Math.min(nextMs, ttlMs / 10, 1000)));
  }

  /** The warden acts at this instant, whatever we do. */
  #isTooLate(nowMs: number): boolean {
    return this.#deadlineMs > 0 && nowMs >= this.#deadlineMs - this.#killEarlyMs;
  }

  #askToStop(leftMs: number): void {
    if (this.#askedToStop) return;
    this.#askedToStop = true;
    this.#lost = this.#whyEnding(leftMs);
    this.#options.note(`the lease ends in ${Math.round(leftMs)} ms: asking the command to stop (SIGTERM)`);
    signalMembers(this.#family, "SIGTERM");
    // A stopped process gets its SIGTERM only when it goes on.
    signalMembers(this.#family, "SIGCONT");
  }

  #whyEnding(leftMs: number): string {
    const heldMs = machineMs() - this.#startedAtMs;
    const { maxHoldMs = Infinity } = this.#options;
    return heldMs + leftMs >= maxHoldMs - 1000 ? "it reached its --max-hold" : "it could not be renewed in time";
  }

  #kill(reason: string): void {
    clearTimeout(this.#timer);
    this.#lost = reason;
    this.#killing ??= endFamily(this.#family);
  }

  #forward(signal: NodeJS.Signals): void {
    if (!this.#family.leads && FROM_TERMINAL.has(signal)) return;
    signalFamily(this.#family, signal);
  }

  /** As with flock(1), the lock is held until the last process that the command left in its session has gone. */
  async #leftovers(): Promise<void> {
    let noted = false;
    for (let pauseMs = 5; leftovers(this.#family); pauseMs = Math.min(pauseMs * 2, 250)) {
      if (!noted && pauseMs >= 100) {
        noted = true;
        this.#options.note(
          "the command has ended, but something it started still runs: keeping the lock until that ends",
        );
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

function reasonOf(lease: Lease): string {
  const reason: unknown = lease.signal.reason;
  return reason instanceof Error && "reason" in reason ? String(reason.reason) : String(reason);
}

function exitCode({ code, signal }: Ended): number {
  if (signal !== null) return 128 + constants.signals[signal];
  return code ?? 1;
}
