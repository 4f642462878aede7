/** Makes random programs. One seed is one program. Not every program uses everything, so rare combinations get their share. */
import { seeded, type SeededChance } from "../seeded-random.ts";
import type { Fault, Operation } from "../faults.ts";
import { EVENTS } from "./events.ts";
import type { LockNames, Options, Program, ProgramFault, Step, Thread } from "./program.ts";
import { mayLinger } from "./lingering.ts";
import { slowness, stretch } from "./stretch.ts";

/** What a program may use beside run() and sleep. */
const FEATURES = [
  "acquire",
  "try",
  "elect",
  "shared",
  "pool",
  "group",
  "other locks",
  "listen",
  "abort",
  "close",
  "force",
  "throw",
  "time",
  "doze",
  "parallel",
  "fork",
  "ttl",
  "holds",
  "check",
  "nest",
  "release",
  "hoard",
] as const;
type Feature = (typeof FEATURES)[number] | "events" | "extend";
/** Programs whose subscribers act, that extend leases, or whose holds linger. Drawn separately, so all others stay what they were. */
const SPECIAL = 0.25;

const SLEEPS = [0, 1, 5, 9, 20, 200, 500, 1000, 1500, 4000, 8000] as const;
const WAITS = [0, 1, 10, 100, 1000, 5000] as const;
const TTLS = [300, 1000, 3000, 30_000] as const;
const OPERATIONS: readonly Operation[] = ["attempt", "watch", "renew", "release", "swap", "listen"];

export function generateProgram(seed: number): Program {
  return mayLinger(new Author(seed).program(), seeded(seed ^ 0x1b873593), SPECIAL);
}

class Author {
  readonly #chance: SeededChance;
  readonly #seed: number;
  readonly #features: ReadonlySet<Feature>;
  /** How many more steps this program may have. */
  #ink: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.#chance = seeded(Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995);
    const share = this.#chance.between(0.15, 0.7);
    const features: Feature[] = FEATURES.filter(() => this.#chance.happens(share));
    if (seeded(seed ^ 0x2545f491).happens(SPECIAL)) features.push("events");
    if (seeded(seed ^ 0x6c8e9cf5).happens(SPECIAL)) features.push("extend");
    this.#features = new Set(features);
    this.#ink = Math.floor(this.#chance.between(4, 26));
  }

  program(): Program {
    const chance = this.#chance;
    const clients = chance.pick([1, 1, 2, 2, 3]);
    const count = Math.max(clients, Math.floor(chance.between(1, 6)));
    const threads: Thread[] = Array.from({ length: count }, (_, at) => {
      const start: Step[] = chance.happens(0.5) ? [{ do: "sleep", ms: chance.pick(SLEEPS) }] : [];
      if (this.#features.has("hoard") && chance.happens(0.4)) start.push(...this.#hoard());
      if (this.#features.has("extend") && chance.happens(0.5)) start.push(...stretch(chance));
      return { client: at % clients, steps: [...start, ...this.#steps(0)] };
    });
    const without = (["swap", "watch", "listen"] as const).filter(() => chance.happens(0.1));
    const faults = chance.happens(0.4) ? this.#faults(clients) : [];
    const slow = this.#features.has("extend") && chance.happens(0.5) ? slowness(chance) : undefined;
    return {
      seed: this.#seed,
      ...(chance.happens(0.4) && { run: chance.pick([1, 2]) }),
      ...(without.length > 0 && { without }),
      ...(chance.happens(0.5) && { lagMs: chance.pick([1, 3, 10, 50, 90]) }),
      ...(faults.length > 0 && { faults }),
      ...slow,
      threads,
    };
  }

  #faults(clients: number): ProgramFault[] {
    const chance = this.#chance;
    return Array.from({ length: Math.ceil(chance.between(0, 4)) }, () => ({
      client: Math.floor(chance.between(0, clients)),
      operation: chance.pick(OPERATIONS),
      nth: chance.pick([1, 1, 1, 2, 2, 3, 4, 6, 9]),
      fault: this.#fault(),
    }));
  }

  #fault(): Fault {
    const chance = this.#chance;
    const done = chance.happens(0.5);
    return chance.pick<Fault>([
      { fault: "request-lost" },
      { fault: "reply-lost" },
      { fault: "hang", ...(done && { done }) },
      { fault: "hang", ...(done && { done }) },
      { fault: "error", ...(done && { done }) },
      { fault: "delay", requestMs: chance.pick([10, 200, 2000]) },
      { fault: "delay", replyMs: chance.pick([10, 200, 2000]) },
    ]);
  }

  #steps(depth: number): Step[] {
    const steps: Step[] = [];
    const most = depth === 0 ? 5 : 4;
    for (let count = Math.floor(this.#chance.between(depth === 0 ? 1 : 0, most)); count > 0 && this.#ink > 0; count--) {
      this.#ink--;
      steps.push(this.#step(depth));
    }
    return steps;
  }

  #step(depth: number): Step {
    const chance = this.#chance;
    const choices: (() => Step)[] = [
      () => this.#sleep(),
      () => this.#sleep(),
      () => ({ do: "run", ...this.#wish(), steps: this.#inner(depth), ...this.#loose() }),
      () => ({ do: "run", ...this.#wish(), steps: this.#inner(depth), ...this.#loose() }),
    ];
    const may = (feature: Feature, ...more: (() => Step)[]): void => {
      if (this.#features.has(feature)) choices.push(...more);
    };
    may("acquire", () => ({ do: "acquire", ...this.#wish(), ...this.#slot(), ...this.#loose() }));
    may(
      "acquire",
      () => this.#release(),
      () => this.#release(),
    );
    may("release", () => ({ do: "release", ...(chance.happens(0.3) && { loose: true }) }));
    may("try", () => ({ do: "try", ...this.#wish(), ...this.#slot(), ...this.#loose() }));
    may("elect", () => this.#elect(depth));
    may(
      "listen",
      () => this.#listen(depth),
      () => this.#listen(depth),
    );
    const on = (): Step => ({ do: "on", event: chance.pick(EVENTS), steps: this.#inner(depth) });
    may("events", on, on);
    may("abort", () => ({ do: "abort", signal: chance.pick([0, 1]) }));
    may("close", () => this.#close());
    may("force", () => ({ do: "force", lock: this.#name() }));
    may("throw", () => ({ do: "throw" }));
    may("time", () => ({ do: chance.pick(["block", "pause"]), ms: chance.pick(SLEEPS) }));
    may("doze", () => this.#doze());
    const other = (): Options => (chance.happens(0.6) ? { ttl: chance.pick(TTLS) } : {});
    may("extend", () => ({ do: "extend", ...this.#which(), ...other(), ...this.#loose() }));
    may("check", () => ({ do: "check", ...this.#which(), ...(chance.happens(0.3) && { times: 80 }) }));
    if (depth < 3) {
      may("parallel", () => ({
        do: "all",
        branches: Array.from({ length: chance.pick([2, 2, 3]) }, () => this.#steps(depth + 1)),
        ...this.#loose(),
      }));
      may("fork", () => ({ do: "fork", steps: this.#steps(depth + 1) }));
    }
    return chance.pick(choices)();
  }

  /** Several leases at once, whose listeners meddle with each other. */
  #hoard(): Step[] {
    const chance = this.#chance;
    const ttl = chance.pick(TTLS);
    const steps: Step[] = [];
    for (const [slot, lock] of ["x", "y", "z", "w"].slice(0, chance.pick([2, 3, 4])).entries()) {
      const shared = this.#features.has("shared") && chance.happens(0.7);
      const options: Options = {
        ...(chance.happens(0.8) && { ttl }),
        ...(chance.happens(0.5) && { renew: false }),
        ...(shared && { mode: "shared" }),
      };
      steps.push({ do: "acquire", lock: shared ? "x" : lock, with: options, slot });
      if (chance.happens(0.5)) steps.push({ do: "sleep", ms: chance.pick(SLEEPS.slice(0, 6)) });
      if (chance.happens(0.7))
        steps.push({ do: "listen", slot, steps: chance.happens(0.5) ? [this.#release()] : this.#steps(2) });
    }
    return steps;
  }

  /** With a long ttl only: terms follow each other within a tenth of it, and say little after the first few. */
  #elect(depth: number): Step {
    const { lock, with: { ttl: _, wait: __, ...options } = {} } = this.#wishOne();
    return { do: "elect", lock, with: { ...options, ttl: 30_000 }, steps: this.#inner(depth) };
  }

  #inner(depth: number): Step[] {
    return depth < 3 || (depth < 5 && this.#features.has("nest")) ? this.#steps(depth + 1) : [this.#sleep()];
  }

  #sleep(): Step {
    return { do: "sleep", ms: this.#chance.pick(SLEEPS) };
  }

  #doze(): Step {
    const chance = this.#chance;
    if (chance.happens(0.3)) return { do: "doubt" };
    return chance.happens(0.5)
      ? { do: "suspend", ms: chance.pick([2500, 4000, 20_000, 40_000]) }
      : { do: "wall", ms: chance.pick([1000, 3000, 40_000]) };
  }

  #close(): Step {
    const chance = this.#chance;
    if (chance.happens(0.5)) return { do: "close" };
    const grace = { grace: chance.pick([0, 10, 1000]) };
    return chance.happens(0.5) ? { do: "close", ...grace } : { do: "close", force: true, ...grace };
  }

  #listen(depth: number): Step {
    return {
      do: "listen",
      ...this.#which(),
      steps: depth < 3 && this.#chance.happens(0.8) ? this.#steps(depth + 1) : [],
    };
  }

  #release(): Step {
    const chance = this.#chance;
    return {
      do: chance.happens(0.8) ? "release" : "dispose",
      slot: chance.pick(this.#features.has("hoard") ? [0, 1, 2, 3] : [0, 1]),
      ...(chance.happens(0.3) && { loose: true }),
    };
  }

  #slot(): { readonly slot?: number } {
    return this.#chance.happens(0.5) ? {} : { slot: 1 };
  }

  /** The function's own lease, or one in a slot. */
  #which(): { readonly slot?: number } {
    return this.#features.has("acquire") && this.#chance.happens(0.5) ? { slot: this.#chance.pick([0, 1]) } : {};
  }

  #loose(): { readonly loose?: true } {
    return this.#chance.happens(0.25) ? { loose: true } : {};
  }

  #name(): string {
    const names = ["x", "x", "x"];
    if (this.#features.has("other locks")) names.push("y", "y");
    if (this.#features.has("pool")) names.push("p", "p");
    return this.#chance.pick(names);
  }

  #wish(): { readonly lock: LockNames; readonly with?: Options } {
    if (this.#features.has("group") && this.#chance.happens(0.4)) {
      const options = this.#options("x");
      return {
        lock: this.#chance.pick([
          ["x", "y"],
          ["y", "x"],
          ["x", "y", "z"],
        ]),
        ...(options && { with: options }),
      };
    }
    return this.#wishOne();
  }

  #wishOne(): { readonly lock: string; readonly with?: Options } {
    const lock = this.#name();
    const options = this.#options(lock);
    return { lock, ...(options && { with: options }) };
  }

  #options(lock: string): Options | undefined {
    const chance = this.#chance;
    const options: Options = {
      ...(this.#features.has("ttl") && chance.happens(0.5) && { ttl: chance.pick(TTLS) }),
      ...(chance.happens(0.4) && { wait: chance.pick(WAITS) }),
      ...(this.#features.has("shared") && lock !== "p" && chance.happens(0.6) && { mode: "shared" }),
      ...(this.#features.has("abort") && chance.happens(0.4) && { signal: chance.pick([0, 1]) }),
      ...(this.#features.has("holds") && this.#hold()),
    };
    return Object.keys(options).length === 0 ? undefined : options;
  }

  #hold(): Options {
    const chance = this.#chance;
    if (chance.happens(0.5)) return {};
    return chance.pick<Options>([
      { renew: false },
      { renew: false },
      { maxHold: chance.pick([200, 1000, 5000]) },
      { minHold: chance.pick([5, 200, 1000]) },
      { lockDelay: chance.pick([100, 1000]) },
    ]);
  }
}
