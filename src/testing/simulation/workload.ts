/** What the processes of a simulation do all day: take locks in every way there is, work, write, and leave. */
import type { AcquireOptions, GroupLease } from "../../core/api.ts";
import { LockBackendError, LockClosedError, LockLostError, LockTimeoutError } from "../../contract/errors.ts";
// Loaded beforehand: in the simulation no time passes while a module is fetched.
import "../../core/deadlocks.ts";
import "../../core/extend.ts";
import "../../core/once.ts";
import type { SeededChance } from "../seeded-random.ts";
import type { Node, World } from "./world.ts";

/** `pool` admits two, `books` has readers and writers, `once` has outcomes, the others have one holder at a time. */
const LOCK_NAMES = ["job", "books", "pool", "once", "other"] as const;
type LockName = (typeof LOCK_NAMES)[number];

/** `job`, and others by dice; all of them are always the same. */
export function drawLocks(chance: SeededChance, count: number): readonly LockName[] {
  const names = new Set<LockName>(count < LOCK_NAMES.length ? ["job"] : LOCK_NAMES);
  while (names.size < count) names.add(chance.pick(LOCK_NAMES));
  return [...names];
}

/** One for all: to make one costs more than the visit that it ends. */
const NO_INTEREST: Error = Object.assign(new Error("lost interest"), { name: "AbortError" });

export interface Habits {
  /** Which they want. */
  readonly locks: readonly LockName[];
  readonly ttlMs: number;
  /** Longest time to work under a lock. */
  readonly workMs: number;
  /** True: short waits only, and never a lease left to run out. */
  readonly tidy: boolean;
  /** True: leases are extended now and then, also for another ttl. */
  readonly extending: boolean;
}

/** One line of work in one process. Ends after its rounds, or when `stopped` says so. */
export async function work(
  world: World,
  node: Node,
  name: string,
  habits: Habits,
  stopped: () => boolean,
): Promise<void> {
  for (let round = 0; !stopped(); round++) {
    await node.process.sleep(world.chance.between(0, habits.ttlMs / 4));
    if (stopped()) return;
    await new Visit(world, node, `${node.process.name}.${name}#${round}`, habits, stopped).make();
  }
}

class Visit {
  readonly #world: World;
  readonly #node: Node;
  readonly #who: string;
  readonly #habits: Habits;
  readonly #stopped: () => boolean;

  constructor(world: World, node: Node, who: string, habits: Habits, stopped: () => boolean) {
    this.#world = world;
    this.#node = node;
    this.#who = who;
    this.#habits = habits;
    this.#stopped = stopped;
  }

  async make(): Promise<void> {
    const { chance } = this.#world;
    const names = chance.happens(0.12) ? ["job", "other"] : [chance.pick(this.#habits.locks)];
    const options = this.#options(names);
    for (const lock of names) {
      const { mode = "exclusive", limit = 1 } = options;
      this.#world.record({ kind: "asked", atMs: this.#world.nowMs, lock, who: this.#who, mode, limit });
    }
    try {
      const way = chance.pick(["run", "run", "acquire", "try"] as const);
      if (names[0] === "once") await this.#once(options);
      else if (way === "run") await this.#run(names, options);
      else if (way === "acquire") await this.#hold(names, await this.#node.locks.acquire(only(names), options));
      else {
        const { wait: _, ...rest } = options;
        const lease = await this.#node.locks.tryAcquire(only(names), rest);
        if (lease === null) this.#refused(names);
        else await this.#hold(names, lease);
      }
    } catch (error) {
      this.#judge(names, error);
    }
  }

  #options(names: readonly string[]): AcquireOptions {
    const { chance } = this.#world;
    const { ttlMs, tidy } = this.#habits;
    const pick = <T extends object>(probability: number, options: T): T | object =>
      chance.happens(probability) ? options : {};
    return {
      ttl: ttlMs,
      wait: Math.ceil(tidy ? chance.between(1, 60) : chance.between(1, ttlMs * 4)),
      ...pick(tidy ? 0 : 0.05, { wait: Infinity }),
      ...(names[0] === "books" && pick(0.6, { mode: "shared" as const })),
      ...(names[0] === "pool" && { limit: 2 }),
      ...(chance.happens(0.2) && { signal: this.#abortSoon() }),
      ...pick(tidy ? 0 : 0.1, { renew: false }),
      ...pick(tidy ? 0 : 0.1, { maxHold: Math.ceil(ttlMs * chance.between(0.3, 2)) }),
      ...pick(tidy ? 0 : 0.05, { minHold: Math.ceil(ttlMs / 5) }),
      ...pick(tidy ? 0 : 0.1, { lockDelay: Math.ceil(ttlMs / 3) }),
    };
  }

  /** A caller who loses interest. */
  #abortSoon(): AbortSignal {
    const stop = new AbortController();
    void this.#node.process
      .sleep(this.#world.chance.between(0, this.#habits.ttlMs))
      .then(() => stop.abort(NO_INTEREST));
    return stop.signal;
  }

  async #run(names: readonly string[], options: AcquireOptions): Promise<void> {
    let held: GroupLease | undefined;
    await this.#node.locks.run(only(names), options, async (lease) => {
      held = lease;
      this.#began(names, lease);
      await this.#labour(names, lease, true);
      this.#ended(names, lease, "releasing");
    });
    // run() does not report how its release went.
    if (held !== undefined) this.#released(names, held, "unknown");
  }

  /** Most of them get what the work of another came to. */
  async #once(options: AcquireOptions): Promise<void> {
    const { chance } = this.#world;
    const names = ["once"];
    const sinceMs = this.#world.nowMs;
    const keep = Math.ceil(1000 + chance.between(0, 2 * this.#habits.ttlMs));
    let held: GroupLease | undefined;
    const { value, replayed, fence } = await this.#node.locks.once("once", { ...options, keep }, async (lease) => {
      held = lease;
      this.#began(names, lease);
      const { fence: own } = lease;
      this.#world.record({ kind: "worked", lock: "once", who: this.#who, fence: own, atMs: this.#world.nowMs });
      await this.#labour(names, lease, true);
      this.#ended(names, lease, "releasing");
      if (chance.happens(0.2)) throw NO_INTEREST;
      return this.#who;
    });
    if (held !== undefined) return this.#released(names, held, "unknown");
    const said = {
      kind: "replayed",
      lock: "once",
      who: this.#who,
      fence,
      value: `v${JSON.stringify(value)}`,
      sinceMs,
    } as const;
    this.#world.record({ ...said, atMs: this.#world.nowMs });
    if (!replayed) this.#world.fail("O9 once", "once", `${this.#who} got a value of no work`);
    return this.#refused(names);
  }

  async #hold(names: readonly string[], lease: GroupLease): Promise<void> {
    this.#began(names, lease);
    await this.#labour(names, lease, false);
    this.#ended(names, lease, "releasing");
    this.#released(names, lease, await lease.release());
  }

  #began(names: readonly string[], lease: GroupLease): void {
    const { chance } = this.#world;
    this.#world.watch(this.#who, names, lease, this.#node.process);
    if (!chance.happens(0.7)) return;
    lease.signal.addEventListener("abort", () => {
      if (!(lease.signal.reason instanceof LockLostError)) return;
      this.#world.signalled(lease);
      this.#ended(names, lease, "lost");
    });
  }

  /** Works under the lease: pauses, writes, goes in again. Most stop when the lease is lost; some never listen. */
  async #labour(names: readonly string[], lease: GroupLease, inside: boolean): Promise<void> {
    const { chance } = this.#world;
    const deaf = chance.happens(0.2);
    const untilMs = this.#world.nowMs + chance.between(0, this.#habits.workMs) * (chance.happens(0.5) ? 0.1 : 1);
    do {
      const checks = chance.happens(0.5);
      if (!checks || lease.remaining() > 0) this.#write(names, lease);
      if (this.#habits.extending && chance.happens(0.3)) await this.#extend(lease);
      if (inside && names.length === 1 && chance.happens(0.15)) await this.#reenter(names[0] ?? "", lease);
      await this.#node.process.sleep(chance.between(0, this.#habits.ttlMs / 5));
      if (!deaf && lease.remaining() === 0) return;
    } while (this.#world.nowMs < untilMs && !this.#stopped());
  }

  async #extend(lease: GroupLease): Promise<void> {
    const { ttlMs } = this.#habits;
    const ttl = this.#world.chance.pick([0, ttlMs, Math.ceil(ttlMs / 2), 2 * ttlMs]);
    try {
      await lease.extend(ttl || undefined);
    } catch (error) {
      // What it says then is judged by what others are granted.
      if (!(error instanceof LockLostError)) throw error;
    }
  }

  async #reenter(lock: string, outer: GroupLease): Promise<void> {
    const options = lock === "pool" ? { limit: 2 } : {};
    try {
      await this.#node.locks.run(
        lock,
        { ttl: this.#habits.ttlMs, mode: this.#modeOf(outer), ...options },
        async ({ fence }) => {
          this.#report({ kind: "entered", lock, fence });
          await this.#node.process.sleep(this.#world.chance.between(0, 5));
          this.#report({ kind: "exited", lock, fence });
        },
      );
    } catch (error) {
      // Entering again after a loss fails: with the loss, never with a fresh hold.
      if (!(error instanceof LockLostError)) throw error;
    }
  }

  #modeOf(lease: GroupLease): "exclusive" | "shared" {
    return (lease as { readonly mode?: "exclusive" | "shared" }).mode ?? "exclusive";
  }

  /** The write may take very long to arrive: that is what fences are for. */
  #write(names: readonly string[], lease: GroupLease): void {
    for (const lock of names) {
      const fence = lease.fenceOf(lock);
      if (lock !== "job" && lock !== "other") continue;
      this.#node.network.commands.send(() => this.#world.write(this.#who, lock, fence), 1);
    }
  }

  #ended(names: readonly string[], lease: GroupLease, kind: "releasing" | "lost"): void {
    for (const lock of names) this.#report({ kind, lock, fence: lease.fenceOf(lock) });
    this.#world.unwatch(lease);
  }

  #released(names: readonly string[], lease: GroupLease, result: "released" | "lost" | "unknown"): void {
    for (const lock of names) {
      // Of several locks, one answer does not say which of them was lost.
      const known = names.length === 1 || result === "released" ? result : "unknown";
      this.#report({ kind: "released", lock, fence: lease.fenceOf(lock), result: known });
    }
  }

  #refused(names: readonly string[]): void {
    for (const lock of names) this.#world.record({ kind: "refused", atMs: this.#world.nowMs, lock, who: this.#who });
  }

  #report(
    event:
      | { readonly kind: "entered" | "exited" | "releasing" | "lost"; readonly lock: string; readonly fence: bigint }
      | {
          readonly kind: "released";
          readonly lock: string;
          readonly fence: bigint;
          readonly result: "released" | "lost" | "unknown";
        },
  ): void {
    this.#world.record({ atMs: this.#world.nowMs, who: this.#who, ...event });
  }

  /** Which errors may come, and what they mean. */
  #judge(names: readonly string[], error: unknown): void {
    const expected =
      error instanceof LockTimeoutError ||
      error instanceof LockLostError ||
      error instanceof LockClosedError ||
      (error instanceof LockBackendError && !error.fatal) ||
      (error instanceof Error && error.name === "AbortError");
    if (!expected) this.#world.fail("O8 truthfulness", names.join(), `${this.#who}: unexpected ${String(error)}`);
    this.#refused(names);
  }
}

function only(names: readonly string[]): string | readonly string[] {
  const [first, ...rest] = names;
  return first !== undefined && rest.length === 0 ? first : names;
}
