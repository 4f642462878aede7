/** One visit to a lock: asked for, worked under, left; each answer is judged by what the lease said of itself. */
import { setTimeout as sleep } from "node:timers/promises";
import type { AcquireOptions, GroupLease, Locks, ReleaseResult } from "../../core/api.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { type Beliefs, fenceOf } from "./beliefs.ts";
import type { Reporter } from "./report.ts";
import type { Take } from "./schedule.ts";
import type { Tasks } from "./tasks.ts";

/** An answer that comes within this of the end of trust may fall on either side. */
const EDGE_MS = 30;
const EXPECTED = ["LockTimeoutError", "LockLostError", "LockClosedError", "AbortError"];

export interface VisitHome {
  readonly beliefs: Beliefs;
  readonly tasks: Tasks;
  readonly reporter: Reporter;
  /** What an abort listener may do beyond its own lease. */
  releaseOthers(): void;
  take(): void;
  close(): void;
  opened(lease: GroupLease): void;
  ended(lease: GroupLease): void;
}

class WorkError extends Error {}

export class Visit {
  readonly #home: VisitHome;
  readonly #locks: Locks;
  readonly #step: number;
  readonly #who: string;
  readonly #terms: Take;
  readonly #names: readonly string[];

  constructor(home: VisitHome, locks: Locks, step: number, who: string, terms: Take, names: readonly string[]) {
    this.#home = home;
    this.#locks = locks;
    this.#step = step;
    this.#who = who;
    this.#terms = terms;
    this.#names = names;
  }

  async make(): Promise<void> {
    const { tasks, reporter } = this.#home;
    const { how, waitMs, holdMs, ttlMs, mode, limit } = this.#terms;
    const askedMs = machineMs();
    for (const lock of this.#names) reporter.event({ kind: "asked", atMs: askedMs, who: this.#who, lock, mode, limit });
    reporter.count(how);
    const boundMs = waitMs + 2 * holdMs + 2 * ttlMs;
    try {
      await tasks.follow(this.#step, `${how}(${this.#names.join()})`, boundMs, this.#go());
    } catch (error) {
      this.#judge(error, machineMs() - askedMs);
      for (const lock of this.#names) reporter.event({ kind: "refused", atMs: machineMs(), who: this.#who, lock });
    }
  }

  async #go(): Promise<void> {
    const { how, abortMs } = this.#terms;
    const stop = abortMs === undefined ? undefined : new AbortController();
    const timer = stop && setTimeout(() => stop.abort(), abortMs);
    const options = { ...this.#options(), ...(stop && { signal: stop.signal }) };
    try {
      if (how === "run") await this.#run(options);
      else if (how === "elect") await this.#elect();
      else if (how === "acquire") await this.#hold(await this.#locks.acquire(this.#target, options));
      else {
        const { wait: _, ...rest } = options;
        const lease = await this.#locks.tryAcquire(this.#target, rest);
        if (lease !== null) await this.#hold(lease);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  get #target(): string | readonly string[] {
    return this.#names.length === 1 ? (this.#names[0] as string) : this.#names;
  }

  #options(): AcquireOptions & { wait: number } {
    const { mode, limit, ttlMs, waitMs, renews, maxHoldMs, lingerMs } = this.#terms;
    return {
      ttl: ttlMs,
      wait: waitMs,
      ...(mode === "shared" && { mode }),
      ...(limit > 1 && { limit }),
      ...(!renews && { renew: false }),
      ...(maxHoldMs !== undefined && { maxHold: maxHoldMs }),
      ...(lingerMs !== undefined && { linger: lingerMs }),
    };
  }

  async #hold(lease: GroupLease): Promise<void> {
    this.#begin(lease);
    await this.#labour(lease, false);
    await this.#leave(lease);
  }

  async #run(options: AcquireOptions): Promise<void> {
    let heldMs = 0;
    let endedMs = 0;
    const work = async (lease: GroupLease): Promise<void> => {
      this.#begin(lease);
      await this.#labour(lease, true);
      heldMs = this.#home.beliefs.leftMs(lease);
      endedMs = machineMs();
      this.#end(lease, "releasing");
      if (this.#terms.throws) throw new WorkError("the work fails");
    };
    try {
      await this.#locks.run(this.#target, options, work);
    } catch (error) {
      if (error instanceof WorkError) return;
      // Judged once, when the work settles.
      const sinceMs = machineMs() - endedMs;
      // A process that was stopped just then may have settled its work when the lease was over.
      if (nameOf(error) === "LockLostError" && heldMs - sinceMs > EDGE_MS && !this.#terms.throws) {
        const message = `run() rejected with "${textOf(error)}", though the lease had ${heldMs.toFixed(0)} ms left when its work ended`;
        this.#find("lost though held", `${message} (${sinceMs.toFixed(0)} ms before)`);
      }
      throw error;
    }
  }

  /** One term as the leader, or none. */
  async #elect(): Promise<void> {
    const { waitMs, ttlMs, mode, limit } = this.#terms;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), waitMs);
    const work = async (lease: GroupLease): Promise<void> => {
      this.#begin(lease);
      stop.abort();
      await this.#labour(lease, true);
      this.#end(lease, "releasing");
    };
    try {
      const options = { ttl: ttlMs, mode, ...(limit > 1 && { limit }), signal: stop.signal };
      await this.#locks.elect(this.#names[0] as string, options, work);
    } finally {
      clearTimeout(timer);
    }
  }

  #begin(lease: GroupLease): void {
    const { beliefs } = this.#home;
    beliefs.begin(this.#who, lease, this.#names);
    this.#home.reporter.count("leases");
    this.#home.opened(lease);
    const { onLost } = this.#terms;
    if (onLost === undefined) return;
    lease.signal.addEventListener("abort", () => {
      if (nameOf(lease.signal.reason) !== "LockLostError") return;
      this.#home.reporter.count("lost");
      this.#end(lease, "lost");
      if (onLost === "release") void this.#release(lease).catch(() => undefined);
      else if (onLost === "release others") this.#home.releaseOthers();
      else if (onLost === "take") this.#home.take();
      else if (onLost === "close") this.#home.close();
    });
  }

  async #labour(lease: GroupLease, inside: boolean): Promise<void> {
    const { holdMs, deaf, nests, ttlMs } = this.#terms;
    const untilMs = machineMs() + holdMs;
    if (inside && nests && this.#names.length === 1) await this.#enter(lease);
    while (machineMs() < untilMs) {
      await sleep(Math.min(ttlMs / 10, Math.max(0, untilMs - machineMs())));
      if (!deaf && this.#home.beliefs.leftMs(lease) === 0) return;
    }
  }

  /** Goes in again where it is already. */
  async #enter(lease: GroupLease): Promise<void> {
    const lock = this.#names[0] as string;
    const { wait: _, ...options } = this.#options();
    try {
      await this.#locks.run(lock, { ...options, wait: this.#terms.ttlMs }, async (inner) => {
        this.#home.reporter.count("re-entries");
        if (inner.fence !== fenceOf(lease, lock))
          this.#find("re-entry", `fence ${inner.fence} inside of ${fenceOf(lease, lock)}`);
        await sleep(1);
      });
    } catch (error) {
      if (!["LockLostError", "LockClosedError"].includes(nameOf(error))) throw error;
    }
  }

  async #leave(lease: GroupLease): Promise<void> {
    const { ends } = this.#terms;
    this.#end(lease, "releasing");
    if (ends === "dispose") await lease[Symbol.asyncDispose]();
    else if (ends === "twice") await Promise.all([this.#release(lease), this.#release(lease)]);
    else await this.#release(lease);
  }

  async #release(lease: GroupLease): Promise<ReleaseResult> {
    const leftMs = this.#home.beliefs.leftMs(lease);
    const calledMs = machineMs();
    const { ttlMs } = this.#terms;
    const result = await this.#home.tasks.follow(
      this.#step,
      `release() of ${this.#names.join()}`,
      ttlMs,
      lease.release(),
    );
    const tookMs = machineMs() - calledMs;
    this.#home.reporter.count(`release: ${result}`);
    if (result === "lost" && leftMs - tookMs > EDGE_MS) {
      const message = `release() said "lost" after ${tookMs.toFixed(0)} ms, though the lease had ${leftMs.toFixed(0)} ms left`;
      this.#find("lost though held", message);
    }
    return result;
  }

  #end(lease: GroupLease, kind: "releasing" | "lost"): void {
    this.#home.beliefs.end(lease, kind);
    this.#home.ended(lease);
  }

  #judge(error: unknown, tookMs: number): void {
    const name = nameOf(error);
    const { waitMs, how } = this.#terms;
    const passing = name === "LockBackendError" && (error as { fatal?: boolean }).fatal !== true;
    if (!passing && !EXPECTED.includes(name)) this.#find("unexpected error", `${how}: ${textOf(error)}`);
    else this.#home.reporter.count(`${how}: ${name}`);
    if (name === "LockTimeoutError" && how !== "try" && tookMs < waitMs - 1)
      this.#find("gave up too early", `after ${tookMs.toFixed(0)} of ${waitMs} ms: ${textOf(error)}`);
  }

  #find(rule: string, message: string): void {
    this.#home.reporter.find({ step: this.#step, rule, message: `${this.#who}: ${message}`, locks: this.#names });
  }
}

export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

export function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
