/** Runs one program to its end, and judges it. The same program ends the same way, every time. */
import { getEventListeners } from "node:events";
import type { Backend } from "../../contract/backend.ts";
import { Interpreter } from "./interpret.ts";
import { Judge } from "./judge.ts";
import { LINGER_MOST_MS } from "./lingering.ts";
import type { Program, Rule, Verdict } from "./program.ts";
import { Stage } from "./stage.ts";
import { unwantedIn } from "./unwanted.ts";

/** Everything a program asks for ends by itself within this time: its waits are bounded, and so is its work. */
const PLAY_MOST_MS = 900_000;
/** close() may have to wait for a store that is silent, but not for long. */
const CLOSE_MOST_MS = 120_000;
/** Longer than any delay or retry; a fault has effects for this long and a ttl. */
const ECHO_MS = 12_000;
const STEPS_MOST = 20_000;

export interface RunOptions {
  /** True: the verdict lists what happened. @default false */
  readonly trace?: boolean | undefined;
  /** Breaks each client's backend, to prove that the judges would notice. @default leaves it as it is */
  readonly tamper?: ((right: Backend) => Backend) | undefined;
  /** Fires each timer; may throw when that takes too long. @default calls it */
  readonly fire?: ((timer: () => void) => void) | undefined;
}

export async function runProgram(program: Program, options: RunOptions = {}): Promise<Verdict> {
  const { stackTraceLimit } = Error;
  // Most errors here are part of the plan; their stacks are never read.
  if (options.trace !== true) Error.stackTraceLimit = 0;
  const play = new Play(program, options);
  const unhandled = (error: unknown): void => play.judge.fail("unhandled rejection", String(error));
  const warned = (warning: Error): void => play.judge.fail("warning", `${warning.name}: ${warning.message}`);
  process.on("unhandledRejection", unhandled);
  process.on("warning", warned);
  try {
    return await play.play();
  } finally {
    process.off("unhandledRejection", unhandled);
    process.off("warning", warned);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

class Play {
  readonly judge: Judge;
  readonly #program: Program;
  readonly #stage: Stage;
  readonly #interpreter: Interpreter;
  #steps = 0;

  constructor(program: Program, { trace = false, tamper, fire }: RunOptions) {
    this.#program = program;
    this.#stage = new Stage(program, trace, tamper);
    if (fire !== undefined) this.#stage.clock.fire = fire;
    this.judge = new Judge(this.#stage);
    this.#interpreter = new Interpreter(this.#stage, this.judge);
    this.#stage.clock.whenQuiet(() => {
      this.judge.look();
      this.#stage.turn++;
      this.#stage.turnMs = this.#stage.nowMs;
    });
  }

  async play(): Promise<Verdict> {
    try {
      await this.#acts();
    } catch (error) {
      this.judge.fail("busy loop", String(error));
    }
    // What the last act left behind in the microtask queue belongs to this program, not to the next.
    await this.#stage.clock.settle();
    this.#interpreter.subscribers.end();
    const { log, nowMs } = this.#stage;
    return { program: this.#program, findings: this.judge.findings, log, simulatedMs: nowMs, steps: this.#steps };
  }

  async #acts(): Promise<void> {
    const { clients, clock } = this.#stage;
    for (const { client, steps } of this.#program.threads) this.#interpreter.start(this.#stage.client(client), steps);
    const interpreter = this.#interpreter;
    if (!(await this.#until(() => interpreter.working === 0, PLAY_MOST_MS))) return this.#stuck("does not settle");
    if (!(await this.#nothingUnwanted())) return;
    const closed = clients.map((client) => {
      let done = false;
      void interpreter.close(client, {})!.then(() => (done = true));
      return () => done;
    });
    const over = (): boolean => closed.every((done) => done()) && this.judge.pending.length === 0;
    if (!(await this.#until(over, CLOSE_MOST_MS))) return this.#stuck("does not settle");
    this.judge.tries.end();
    // What must end after a close() that gave up has time to do so.
    if (!(await this.#until(() => clock.timers === 0, CLOSE_MOST_MS))) this.#stuck("left after close");
    if (this.judge.findings.length > 0) return;
    clock.block(this.#echoMs);
    this.#lookAround();
  }

  /** Lets time pass. `false`: it did not come true in time, or something else went wrong. */
  async #until(done: () => boolean, mostMs: number): Promise<boolean> {
    const { clock } = this.#stage;
    const deadlineMs = clock.now() + mostMs;
    await clock.settle();
    for (;;) {
      if (this.judge.findings.length > 0) return false;
      if (done()) return true;
      if (++this.#steps > STEPS_MOST) {
        this.judge.fail("busy loop", `${STEPS_MOST} timers fired in ${clock.now().toFixed(0)} ms`);
        return false;
      }
      if ((clock.nextDueMs ?? Infinity) > deadlineMs) return false;
      await clock.step();
    }
  }

  get #echoMs(): number {
    const ttls = this.judge.calls.map(({ ttlMs }) => ttlMs);
    return ECHO_MS + 2 * Math.max(0, ...ttls);
  }

  #stuck(rule: Rule): void {
    if (this.judge.findings.length > 0) return;
    const { clients, clock } = this.#stage;
    const calls = this.judge.pending.map(
      ({ client, verb, names }) => `${client.name}'s ${verb}() of "${names.join()}"`,
    );
    const timers = clients.map(({ name, process }) => `${name} ${process.timers}`).join(", ");
    this.judge.fail(rule, `waiting: ${calls.join(", ") || "none"}; timers: ${timers}, in all ${clock.timers}`);
  }

  /** A client that waits for nothing and holds nothing has nothing in the store, once messages have arrived and faults are over. */
  async #nothingUnwanted(): Promise<boolean> {
    const { clock, clients, program } = this.#stage;
    // One that stands still can give nothing back. Its program may have ended meanwhile, by another branch.
    await this.#until(() => clients.every(({ process }) => process.running), PLAY_MOST_MS);
    // Candidates never stop: behind them the effects of a fault cannot be waited for.
    const busy = this.judge.pending.length > 0;
    const calm = (program.faults ?? []).length === 0;
    if (busy && !calm) return true;
    const echoMs =
      (program.linger === undefined ? 0 : LINGER_MOST_MS) + (calm ? 5 + 6 * (program.lagMs ?? 0) : this.#echoMs);
    let untilMs = clock.now() + echoMs;
    let pending = this.judge.pending.length;
    const isTidy = (): boolean => unwantedIn(this.#stage, this.judge).length === 0;
    // A candidate's work may put its machine to sleep again at any time, for longer than is waited here.
    let stoodStill = false;
    const look = (): boolean => {
      stoodStill ||= clients.some(({ process }) => !process.running);
      // What the program does not wait for may end meanwhile; its lock is given back, or lingers, from then on.
      if (this.judge.pending.length !== pending) untilMs = clock.now() + echoMs;
      pending = this.judge.pending.length;
      return stoodStill || isTidy() || (clock.nextDueMs ?? Infinity) > untilMs;
    };
    await this.#until(look, Infinity);
    if (stoodStill) return this.judge.findings.length === 0;
    // The store needs no timer for a lease that only ends: no event may be left before that.
    if (!isTidy() && clock.now() < untilMs) clock.block(untilMs - clock.now());
    for (const claim of unwantedIn(this.#stage, this.judge))
      this.judge.fail("unwanted claim", `the store has ${claim}`);
    return this.judge.findings.length === 0;
  }

  #lookAround(): void {
    const { store, clients } = this.#stage;
    for (const { name, held, queued } of store.view()) {
      if (held.length + queued.length > 0) this.judge.fail("left after close", `the store still has "${name}"`);
    }
    for (const { name, process, signals } of clients) {
      if (process.timers > 0) this.judge.fail("left after close", `${name} has ${process.timers} timers`);
      for (const controller of signals) {
        const left = controller === undefined ? 0 : getEventListeners(controller.signal, "abort").length;
        if (left > 0) this.judge.fail("listener left", `${left} listeners on a signal of ${name}`);
      }
    }
  }
}
