/** Where a program plays: a store, one process for each client, and a way between them on which the program's faults lie in wait. */
// Loaded beforehand: no simulated time passes while a module is fetched.
import "../../core/deadlocks.ts";
import type { Locks } from "../../core/api.ts";
import type { Backend, Claim, Listener, Renewal } from "../../contract/backend.ts";
import { createLocks } from "../../core/locks.ts";
import { memory, type MemoryStore, memoryStore } from "../../backends/memory/index.ts";
import type { StoreChange } from "../../backends/memory/index.ts";
import { FakeClock } from "../fake-clock.ts";
import { faulty } from "../faulty.ts";
import { seeded } from "../seeded-random.ts";
import { SimulatedProcess } from "../simulation/process.ts";
import type { Fault, Operation } from "../faults.ts";
import type { Program } from "./program.ts";

/** How a client's close() went. */
export interface Closing {
  /** The turn in which close() was first called. */
  readonly turn: number;
  settled: "no" | "resolved" | "rejected";
}

export class Client {
  readonly index: number;
  readonly name: string;
  /** Says in events whose they are. */
  readonly backendName: string;
  readonly process: SimulatedProcess;
  readonly locks: Locks;
  /** Claims whose loss this process has learned of, and in which turn. */
  readonly knownLost: Map<string, number> = new Map();
  readonly signals: AbortController[] = [];
  /** The backend says that it was reconnected. */
  doubt: () => void = () => undefined;
  closing: Closing | undefined;
  /** close({ force: true }) was called. */
  forced = false;
  /** Its machine slept, or its wall clock was set: it may be in doubt where the store is not. */
  dozed = false;
  /** Calls of its user that go on whatever close() does, with a timer each. */
  asking: number = 0;
  requests: number = 0;
  /** Requests in this turn. */
  burst: number = 0;
  /** When it last asked for renewals, the latest last. */
  readonly renewals: number[] = [];
  /** Claims whose release the store has confirmed to this process. */
  readonly confirmed: Set<string> = new Set();
  /** Claims of which a question may come late, and whether the last renewal that named the fence was answered with yes. */
  readonly echoing: Map<string, boolean> = new Map();

  constructor(stage: Stage, index: number) {
    this.index = index;
    this.name = "ABCDEFGH"[index] ?? `client ${index}`;
    this.backendName = `memory of ${this.name}`;
    const { program, clock, store } = stage;
    this.process = new SimulatedProcess(clock, this.name, 1);
    const { seed = 1 } = program;
    const right = memory({ store, clock: this.process.clock });
    const near: Backend = faulty(stage.tamper(right), {
      clock,
      without: program.without,
      deliver: (arrive) => this.process.deliver(arrive),
      decide: (operation, nth) => {
        if (operation !== "listen" && operation !== "watch") this.#asked();
        return faultOf(program, index, operation, nth);
      },
    });
    const listen = near.listen?.bind(near);
    const hear: NonNullable<Backend["listen"]> = (listener) => {
      this.doubt = () => listener.doubt();
      const lost: Listener["lost"] = (id, reason) => {
        this.knownLost.set(id, stage.turn);
        listener.lost(id, reason);
      };
      listen?.({ lost, doubt: this.doubt, wanted: (id) => listener.wanted?.(id) });
    };
    const { backendName: name } = this;
    const backend: Backend = { ...this.#noted(near, stage), name, ...(listen && { listen: hear }) };
    this.locks = createLocks(backend, {
      clock: this.process.clock,
      chance: seeded(seed * 31 + index),
      holder: this.name,
      ttl: DEFAULT_TTL_MS,
      linger: program.linger,
    });
  }

  /** Listens in on the answers, without a turn of the microtask queue more. */
  #noted(near: Backend, stage: Stage): Backend {
    const note = (id: string, was: unknown): void => {
      if (was === true || was === "held") this.confirmed.add(id);
    };
    const noteAsked = (
      { id }: Claim,
      answer: Promise<{ readonly sentTwice?: boolean | undefined } | undefined>,
    ): void => {
      const echoes = (): unknown => this.echoing.set(id, false);
      answer.then((heard) => heard?.sentTwice === true && echoes(), echoes);
    };
    return {
      ...near,
      attempt: (claim) => {
        const answer = near.attempt(claim);
        noteAsked(claim, answer);
        return answer;
      },
      release: (claim) => {
        const answer = near.release(claim);
        answer.then((was) => note(claim.id, was)).catch(() => undefined);
        return answer;
      },
      renew: (claims, fences) => {
        this.renewals.push(stage.nowMs);
        const dead = claims.find(({ id }) => this.confirmed.has(id));
        if (dead !== undefined) stage.onZombie(this, dead.name);
        const echoing = claims.filter(({ id }) => fences !== undefined && this.echoing.has(id));
        for (const { id } of echoing) this.echoing.set(id, false);
        const answer = near.renew(claims, fences);
        const heard = (answers: readonly Renewal[]): void => {
          for (const one of echoing) this.echoing.set(one.id, answers[claims.indexOf(one)]?.held === true);
        };
        answer.then(heard).catch(() => undefined);
        return answer;
      },
      ...(near.swap && {
        swap: (held, next) => {
          const answer = near.swap!(held, next);
          answer.then(({ released }) => note(held.id, released)).catch(() => undefined);
          noteAsked(next, answer);
          return answer;
        },
      }),
    };
  }

  /** The program's abort signal of that number, as this process has it. */
  readonly signal = (index: number): AbortController => (this.signals[index] ??= new AbortController());

  #asked(): void {
    this.requests++;
    this.burst++;
  }
}

/** Long enough for every lag, short enough for many renewals. */
export const DEFAULT_TTL_MS = 3000;

export class Stage {
  readonly program: Program;
  readonly clock: FakeClock = new FakeClock({ nowMs: 0, wallMs: 1_000_000 });
  readonly store: MemoryStore;
  readonly clients: readonly Client[];
  readonly log: string[] = [];
  /** How often all has been quiet. What happens within one turn happens at one instant. */
  turn: number = 0;
  /** When this turn began. */
  turnMs: number = 0;
  /** When all processes last stood still. */
  blockedMs: number = -Infinity;
  /** In which turn. */
  blockedTurn: number = -1;
  /** Called for a renewal of what had been released. */
  onZombie: (client: Client, lock: string) => void = () => undefined;
  /** Called for every change in the store. */
  onChange: (change: StoreChange) => void = () => undefined;

  /** False: the log will not be read. */
  readonly #traced: boolean;

  /** Breaks the backend, to prove that the judges would notice. */
  readonly tamper: (right: Backend) => Backend;

  constructor(program: Program, traced: boolean, tamper: (right: Backend) => Backend = (right) => right) {
    this.program = program;
    this.#traced = traced;
    this.tamper = tamper;
    this.store = memoryStore({
      clock: this.clock,
      run: program.run ?? 64,
      log: (change) => {
        this.say(() => describe(change));
        this.onChange(change);
      },
    });
    const count = Math.max(1, ...program.threads.map(({ client }) => client + 1));
    this.clients = Array.from({ length: count }, (_, index) => new Client(this, index));
  }

  get nowMs(): number {
    return this.clock.now();
  }

  client(index: number): Client {
    return this.clients[index]!;
  }

  clientOf(holder: string): Client | undefined {
    return this.clients.find(({ name }) => name === holder);
  }

  say(text: () => string): void {
    if (this.#traced) this.log.push(`${this.nowMs.toFixed(0).padStart(6)}  ${text()}`);
  }
}

/** The program's own fault for this call; or the lag, the same for the same call whatever else was cut out of the program. */
function faultOf(program: Program, client: number, operation: Operation, nth: number): Fault | undefined {
  for (const fault of program.faults ?? []) {
    if (fault.client === client && fault.operation === operation && fault.nth === nth) return fault.fault;
  }
  const { lagMs = 0, seed = 1 } = program;
  if (lagMs === 0) return undefined;
  const requestMs = draw(seed, client, operation, nth) * lagMs;
  return { fault: "delay", requestMs, replyMs: draw(seed + 1, client, operation, nth) * lagMs };
}

function draw(seed: number, client: number, operation: Operation, nth: number): number {
  let mixed = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(client + 1, 0xc2b2ae35) ^ Math.imul(nth, 0x27d4eb2f);
  for (let at = 0; at < operation.length; at++) mixed = Math.imul(mixed ^ operation.charCodeAt(at), 0x01000193);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x2c1b3c6d);
  return ((mixed ^ (mixed >>> 12)) >>> 0) / 2 ** 32;
}

function describe(change: StoreChange): string {
  const { kind, lock, holder } = change;
  const what = kind === "dropped" ? `drops (${change.how})` : kind === "granted" ? "grants" : kind;
  const fence = "fence" in change ? `, fence ${change.fence}` : "";
  return `  store ${what} ${lock}: ${holder}${fence}`;
}
