/** One simulated world: a store, processes with networks between, and a record of all that was believed and all that was so. */
import type { GroupLease, Locks } from "../../core/api.ts";
import type { Backend, Member } from "../../contract/backend.ts";
import { createLocks } from "../../core/locks.ts";
import { memory, type MemoryStore, memoryStore, type StoreChange } from "../../backends/memory/index.ts";
import { FakeClock } from "../fake-clock.ts";
import type { HistoryEvent, Oracle, Violation } from "../history/events.ts";
import { seeded, type SeededChance } from "../seeded-random.ts";
import { Counter } from "./counter.ts";
import { Network, type Rules } from "./network.ts";
import { SimulatedProcess } from "./process.ts";

/** What can happen to a process and its connections. */
export const TROUBLES = ["pause", "suspend", "crash", "cut", "force", "stall", "reset"] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Breaks one rule on purpose, to prove that the simulation would notice. */
export interface Mutation {
  /** Replaces methods of the store as every process sees it. */
  readonly store?: (right: Member, process: SimulatedProcess, world: World) => Partial<Backend>;
  /** Replaces methods of the backend on the process's side of the network. */
  readonly client?: (right: Backend, process: SimulatedProcess, world: World) => Partial<Backend>;
  /** Rules of the process's side of the network that are off. */
  readonly rules?: Rules;
  /** These troubles, and no others. */
  readonly troubles?: readonly Trouble[];
  /** Events that never happened, given to the judge after all that did. */
  readonly rumours?: (afterMs: number) => readonly HistoryEvent[];
  /** Decides what the guarded resource lets in, instead of "not below the highest fence so far". */
  readonly guard?: (fence: bigint, highest: bigint) => boolean;
}

/** What a world lives through, in this order: see simulate.ts. */
export type Phase = "chaos" | "peace" | "take-over" | "farewell";

/** A process with its locks. */
export interface Node {
  readonly process: SimulatedProcess;
  readonly network: Network;
  readonly locks: Locks;
}

interface Watched {
  readonly who: string;
  readonly names: readonly string[];
  readonly lease: GroupLease;
  readonly process: SimulatedProcess;
  trustedUntilMs: number;
  /** When its signal must have aborted, unless it is confirmed or released before. */
  signalDueMs: number;
  /** Not asked again before. */
  nextLookMs: number;
}

/** A process's clock may differ from the store's by this share: less than the drift that the core allows for. */
const RATE_ERROR_MOST = 0.008;
/** Many times what a world needs: a loop in which no time passes is a bug, and must not hang the run. */
const STEPS_MOST = 500_000;
const DOUBT_LOOK_MS = 5;

/** Timers count in whole milliseconds. */
const SIGNAL_LATE_MOST_MS = 2;

// Taken at load time, so a test runner that replaces them does not stop the world.
const nextTick: (fn: () => void) => void = process.nextTick.bind(process);
const nextLoop = globalThis.setImmediate;
/** After so many steps the event loop turns, so an unhandled rejection is reported while its world is at work. */
const LOOP_STEPS = 8;

export class World {
  readonly clock: FakeClock = new FakeClock({ nowMs: 0 });
  readonly chance: SeededChance;
  readonly history: HistoryEvent[] = [];
  readonly violations: Violation[] = [];
  readonly store: MemoryStore;
  readonly counter: Counter;
  readonly mutation: Mutation;
  nodes: Node[] = [];
  /** Of all processes that ever were. */
  readonly networks: Network[] = [];
  phase: Phase = "chaos";
  /** How long holds linger. */
  lingerMs: number | undefined;
  steps = 0;
  /** When each step began, to name the step of a violation. */
  readonly stepMs: number[] = [];
  readonly #watched = new Set<Watched>();
  readonly #highest = new Map<string, bigint>();
  #born = 0;

  constructor(seed: number, mutation: Mutation) {
    this.chance = seeded(seed);
    this.mutation = mutation;
    const run = this.chance.pick([1, 2, 64]);
    const counter = new Counter(mutation.rules?.lastFence !== false);
    const log = (change: StoreChange): void => {
      this.history.push(change);
      counter.note(change);
    };
    this.counter = counter;
    this.store = memoryStore({ clock: this.clock, run, log });
  }

  get nowMs(): number {
    return this.clock.now();
  }

  /** Starts one more process. */
  spawn(): Node {
    const { chance, clock, mutation } = this;
    const rate = 1 + chance.between(-RATE_ERROR_MOST, RATE_ERROR_MOST);
    const process = new SimulatedProcess(clock, `p${++this.#born}`, rate);
    const right = memory({ store: this.store, clock: process.clock });
    const seen = mutation.store === undefined ? right : override(right, mutation.store(right, process, this));
    const remote = { backend: seen, store: this.store, counter: this.counter };
    const network = new Network(clock, chance, process, remote, mutation.rules ?? {});
    const near = network.backend;
    const backend = mutation.client === undefined ? near : override(near, mutation.client(near, process, this));
    const ids = seeded(Math.floor(chance.fraction() * 2 ** 32));
    const { lingerMs: linger } = this;
    const locks = createLocks(backend, { clock: process.clock, chance: ids, holder: process.name, linger });
    const node = { process, network, locks };
    this.nodes.push(node);
    this.networks.push(network);
    return node;
  }

  /** Ends a process. Its beliefs die with it. */
  crash(node: Node): void {
    node.process.crash();
    this.nodes = this.nodes.filter((other) => other !== node);
    for (const watched of this.#watched) {
      if (watched.process !== node.process) continue;
      const untilMs = Math.min(this.nowMs, watched.trustedUntilMs);
      for (const lock of watched.names) this.#trusted(watched, lock, untilMs);
      this.#watched.delete(watched);
    }
  }

  record(event: HistoryEvent): void {
    this.history.push(event);
  }

  fail(oracle: Oracle, lock: string, message: string): void {
    this.violations.push({ oracle, atMs: this.nowMs, lock, message });
  }

  /** Follows a lease from now on: what it says about itself after every step. */
  watch(who: string, names: readonly string[], lease: GroupLease, process: SimulatedProcess): void {
    const trustedUntilMs = this.nowMs + lease.remaining() / process.rate;
    // A lease may arrive in doubt; then it is not known yet when its signal is due.
    const signalDueMs = trustedUntilMs > this.nowMs ? trustedUntilMs : Infinity;
    for (const lock of names) {
      const fence = fenceOf(lease, lock);
      this.record({ kind: "held", atMs: this.nowMs, lock, who, fence, trustedUntilMs });
    }
    this.#watched.add({ who, names, lease, process, trustedUntilMs, signalDueMs, nextLookMs: 0 });
  }

  unwatch(lease: GroupLease): void {
    for (const watched of this.#watched) if (watched.lease === lease) this.#watched.delete(watched);
  }

  /** Called from the signal of a lease: it must not have come late. */
  signalled(lease: GroupLease): void {
    for (const watched of this.#watched) {
      if (watched.lease !== lease) continue;
      const lateMs = this.nowMs - watched.signalDueMs;
      const stoodStill = watched.process.stoodStillMs > watched.signalDueMs;
      if (lateMs > SIGNAL_LATE_MOST_MS && !stoodStill) {
        this.fail("O4 early signal", lease.name, `${watched.who}: the signal came ${lateMs.toFixed(3)} ms late`);
      }
    }
  }

  /** A write to what the lock protects arrives there. */
  write(who: string, lock: string, fence: bigint): void {
    const highest = this.#highest.get(lock) ?? -1n;
    const accepted = this.mutation.guard?.(fence, highest) ?? fence >= highest;
    if (accepted && fence > highest) this.#highest.set(lock, fence);
    this.record({ kind: "wrote", atMs: this.nowMs, lock, who, fence, accepted });
  }

  /**
   * Lets things happen, one timer at a time, until `done` or until nothing more is due before the deadline. Promises settle
   * between two timers. A loop of callbacks, because it turns a thousand times in a world: promises of its own would
   * cost more than what it drives.
   */
  until(done: () => boolean, deadlineMs: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        try {
          if (done()) return resolve(true);
          if ((this.clock.nextDueMs ?? Infinity) > deadlineMs) {
            this.clock.block(deadlineMs - this.nowMs);
            return this.#settled(() => resolve(done()));
          }
          if (++this.steps > STEPS_MOST) throw new Error(`the simulation does not end (at ${this.nowMs} ms)`);
          this.clock.fireNext();
          this.#settled(look);
        } catch (error) {
          reject(error as Error);
        }
      };
      const look = (): void => {
        this.stepMs.push(this.nowMs);
        for (const watched of this.#watched) this.#sample(watched);
        turn();
      };
      this.#settled(turn);
    });
  }

  /**
   * Calls `next` when every promise has settled that can without time passing. A tick asked for by a microtask comes after all
   * other microtasks; to turn the event loop each time would cost as much as what the core does in a step.
   */
  #settled(next: () => void): void {
    if (this.steps % LOOP_STEPS === 0) nextLoop(next);
    else queueMicrotask(() => nextTick(next));
  }

  /** Notes down a change of what the lease says. A process that stands still says nothing. */
  #sample(watched: Watched): void {
    const { process, lease, names } = watched;
    if (!process.running || this.nowMs < watched.nextLookMs) return;
    const remainingMs = lease.remaining();
    // A lease in doubt asks the store when it is looked at: not at every step of the world.
    if (remainingMs === 0) watched.nextLookMs = this.nowMs + DOUBT_LOOK_MS;
    const untilMs = this.nowMs + remainingMs / process.rate;
    if (remainingMs > 0) watched.signalDueMs = untilMs;
    // In doubt, or gone before its time: there is no instant at which the signal is due.
    else if (this.nowMs < watched.signalDueMs) watched.signalDueMs = Infinity;
    const changed =
      remainingMs > 0 ? Math.abs(untilMs - watched.trustedUntilMs) > 0.001 : watched.trustedUntilMs > untilMs;
    if (changed) for (const lock of names) this.#trusted(watched, lock, untilMs);
  }

  #trusted(watched: Watched, lock: string, trustedUntilMs: number): void {
    watched.trustedUntilMs = trustedUntilMs;
    const { who, lease } = watched;
    this.record({ kind: "trusted", atMs: this.nowMs, lock, who, fence: fenceOf(lease, lock), trustedUntilMs });
  }

  /** A machine falls asleep: the next check of its leases finds them in doubt. */
  suspend(process: SimulatedProcess): void {
    process.suspend();
    for (const watched of this.#watched) {
      if (watched.process !== process || watched.trustedUntilMs <= this.nowMs) continue;
      for (const lock of watched.names) this.#trusted(watched, lock, this.nowMs);
    }
  }
}

function fenceOf(lease: GroupLease, lock: string): bigint {
  return lease.fenceOf(lock);
}

function override<B extends Backend>(right: B, changes: Partial<Backend>): B {
  // A proxy, as spreading would lose the methods of a class.
  return new Proxy(right, {
    get: (target, property) => {
      const changed = changes[property as keyof Backend];
      const value: unknown = changed ?? target[property as keyof B];
      return typeof value === "function" ? (value as () => unknown).bind(target) : value;
    },
  });
}
