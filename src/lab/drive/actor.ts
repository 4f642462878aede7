/** A client of the driver: it opens locks, closes them and opens new ones, and does what the schedule says. */
import type { GroupLease, Locks } from "../../core/api.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { Beliefs } from "./beliefs.ts";
import type { Holdfast } from "./library.ts";
import type { Reporter } from "./report.ts";
import type { Act, Take } from "./schedule.ts";
import { Tasks } from "./tasks.ts";
import { nameOf, textOf, Visit } from "./visit.ts";

export interface ActorSetup {
  readonly name: string;
  /** What all lock names of the round begin with. */
  readonly prefix: string;
  readonly holdfast: Holdfast;
  readonly reporter: Reporter;
  /** Opens the store anew, as another life. */
  open(holder: string): Locks;
  /** Called when close() has settled: what the store still has of that holder is checked. */
  closed(holder: string, step: number, clean: boolean): Promise<void>;
}

/** What the schedule may order an actor to do; the rest is done to it. */
export type OwnAct = Act & { readonly do: "take" | "force" | "block" | "close" };

interface Life {
  readonly locks: Locks;
  readonly holder: string;
  /** `free`: no function runs under it, so close() takes it away. */
  readonly leases: Map<GroupLease, { readonly free: boolean }>;
  closing: Promise<void> | undefined;
}

/** close() waits for running functions, which the schedule keeps short; and some seconds for the store. */
const CLOSE_MS = 10_000;

export class Actor {
  readonly #setup: ActorSetup;
  readonly #tasks: Tasks;
  readonly #beliefs: Beliefs;
  readonly #lives: Life[] = [];

  constructor(setup: ActorSetup, shared: { readonly tasks: Tasks; readonly beliefs: Beliefs }) {
    this.#setup = setup;
    this.#tasks = shared.tasks;
    this.#beliefs = shared.beliefs;
    this.#live();
  }

  get #life(): Life {
    return this.#lives.at(-1) as Life;
  }

  perform(step: number, act: OwnAct): void {
    switch (act.do) {
      case "take":
        return void this.#take(step, act);
      case "force":
        return void this.#force(step, this.#nameOf(act.lock));
      case "block":
        return block(act.forMs);
      case "close":
        this.#close(step, act.force);
        return this.#live();
    }
  }

  /** Closes what is open. Resolves when all lives are closed. */
  async finish(): Promise<void> {
    if (this.#life.closing === undefined) this.#close(0, false);
    for (const { closing } of this.#lives) await closing;
  }

  #live(): void {
    const holder = `${this.#setup.name}.${this.#lives.length + 1}`;
    this.#lives.push({ locks: this.#setup.open(holder), holder, leases: new Map(), closing: undefined });
  }

  #nameOf(lock: string): string {
    return this.#setup.prefix + lock;
  }

  async #take(step: number, terms: Take, suffix = ""): Promise<void> {
    const life = this.#life;
    const names = terms.locks.map((lock) => this.#nameOf(lock));
    const home = {
      beliefs: this.#beliefs,
      tasks: this.#tasks,
      reporter: this.#setup.reporter,
      releaseOthers: () => {
        for (const lease of life.leases.keys()) {
          this.#beliefs.end(lease, "releasing");
          void lease.release().catch(() => undefined);
        }
      },
      take: () => void this.#take(step, { ...terms, onLost: undefined, holdMs: 0 }, `${suffix}+`),
      close: () => {
        if (life.closing !== undefined || life !== this.#life) return;
        this.#close(step, false);
        this.#live();
      },
      opened: (lease: GroupLease) =>
        void life.leases.set(lease, { free: terms.how === "acquire" || terms.how === "try" }),
      ended: (lease: GroupLease) => void life.leases.delete(lease),
    };
    const who = `${life.holder}#${step}${suffix}`;
    await new Visit(home, life.locks, step, who, terms, names).make();
  }

  async #force(step: number, lock: string): Promise<void> {
    const { locks } = this.#life;
    const { reporter } = this.#setup;
    try {
      const { held } = await this.#tasks.follow(step, "query()", 10_000, locks.query(lock));
      const [victim] = held;
      if (victim === undefined) return;
      const fromMs = machineMs();
      // Whether it was done is unknown until the answer; a lost answer leaves it unknown.
      reporter.event({ kind: "dropped", how: "forced", claim: "", atMs: fromMs, lock, fence: victim.fence });
      reporter.count("force");
      const forcing = locks.forceRelease(lock, { fence: victim.fence, reason: "driver" });
      await this.#tasks.follow(step, "forceRelease()", 10_000, forcing);
    } catch (error) {
      if (!["LockBackendError", "LockClosedError", "AbortError"].includes(nameOf(error)))
        reporter.find({ step, rule: "unexpected error", message: `force: ${textOf(error)}` });
    }
  }

  #close(step: number, force: boolean): void {
    const life = this.#life;
    this.#setup.reporter.count("close");
    // A caller of close() expects that these end.
    for (const [lease, { free }] of life.leases) if (free || force) this.#beliefs.end(lease, "releasing");
    const closing = life.locks.close(force ? { grace: 1, force: true } : {});
    life.closing = this.#tasks.follow(step, `close() of ${life.holder}`, CLOSE_MS, closing).then(
      () => this.#setup.closed(life.holder, step, true),
      (error: unknown) => {
        if (nameOf(error) !== "LockBackendError")
          this.#setup.reporter.find({ step, rule: "unexpected error", message: `close: ${textOf(error)}` });
        this.#setup.reporter.count("close: rejected");
        return this.#setup.closed(life.holder, step, false);
      },
    );
  }
}

function block(ms: number): void {
  const untilMs = machineMs() + ms;
  while (machineMs() < untilMs);
}
