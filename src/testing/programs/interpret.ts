/** Does what a program says, step by step, with the public API only, and reports it to the judge. */
import type { AcquireOptions } from "../../core/api.ts";
import { LockClosedError } from "../../contract/errors.ts";
import "../../core/extend.ts";
import { peek } from "../peek.ts";
import { around, inside } from "./around.ts";
import { Subscribers } from "./events.ts";
import { type Judge, ProgramError } from "./judge.ts";
import type { LockNames, Options, Step } from "./program.ts";
import { type Client, DEFAULT_TTL_MS, type Stage } from "./stage.ts";
import type { Call, Tenancy, Verb } from "./tenancy.ts";
import { passTime } from "./time.ts";
import { isPool } from "./truth.ts";

type Steps = readonly Step[];
type Of<D extends Step["do"]> = Extract<Step, { readonly do: D }>;

const DEFAULT_WAIT_MS = 10_000;
/** A candidate that starts candidates in every term would fill the world. */
const CANDIDATES_MOST = 5;
const TERMS_MOST = 3;

export class Interpreter {
  /** The leases that a program keeps, by client and number. */
  readonly #slots: Map<Client, (Tenancy | undefined)[]> = new Map();
  /** How many lines of work have not ended. */
  working: number = 0;
  readonly subscribers: Subscribers = new Subscribers();
  #candidates = 0;
  readonly #stage: Stage;
  readonly #judge: Judge;

  constructor(stage: Stage, judge: Judge) {
    this.#stage = stage;
    this.#judge = judge;
  }

  /** Starts a line of work that the program does not wait for. */
  start(client: Client, steps: Steps): void {
    this.working++;
    const end = (): void => void this.working--;
    this.#all(client, steps).then(end, end);
  }

  /** No turn of the microtask queue passes between two steps that need none: a listener acts in the very event. */
  async #all(client: Client, steps: Steps): Promise<void> {
    for (const step of steps) {
      const doing = this.#do(client, step);
      if (doing !== undefined) await doing;
    }
  }

  #do(client: Client, step: Step): Promise<unknown> | undefined {
    switch (step.do) {
      case "run":
        return orCaught(this.#run(client, step), step.loose);
      case "acquire":
      case "try":
        return orCaught(this.#acquire(client, step), step.loose);
      case "elect":
        void this.#elect(client, step);
        return undefined;
      case "extend":
        return this.#extend(client, step);
      case "release":
      case "dispose":
        return this.#release(client, step);
      case "check":
        return this.#check(client, step);
      case "listen":
        return this.#listen(client, step);
      case "on":
        this.subscribers.on(client, step.event, () => this.start(client, step.steps));
        return undefined;
      case "throw":
        throw new ProgramError("the work failed");
      case "abort":
        return this.#abort(step.signal);
      case "close":
        return this.close(client, step);
      case "force":
        return this.#force(client, step.lock);
      case "doubt":
        if (client.closing === undefined) client.doubt();
        return undefined;
      case "all":
        return orCaught(Promise.all(step.branches.map((steps) => this.#all(client, steps))), step.loose);
      case "fork":
        this.start(client, step.steps);
        return undefined;
      case "sleep":
      case "block":
      case "pause":
      case "suspend":
      case "wall":
        return passTime(this.#stage, client, step);
    }
  }

  #call(client: Client, verb: Verb, lock: LockNames, options: Options = {}): Call {
    const signal = options.signal === undefined ? undefined : client.signal(options.signal).signal;
    return this.#judge.called({
      client,
      verb,
      names: typeof lock === "string" ? [lock] : [...new Set(lock)],
      mode: options.mode ?? "exclusive",
      ttlMs: options.ttl ?? DEFAULT_TTL_MS,
      signal,
      waitMs: verb === "run" || verb === "acquire" ? (options.wait ?? DEFAULT_WAIT_MS) : 0,
      // What is not renewed for ever is lost sooner or later, though nothing goes wrong.
      endless: options.renew !== false && options.maxHold === undefined,
      inside: around(),
    });
  }

  async #run(client: Client, { lock, steps, with: options = {} }: Of<"run">): Promise<void> {
    const call = this.#call(client, "run", lock, options);
    let tenancy: Tenancy | undefined;
    let failure: unknown;
    try {
      await client.locks.run(lock, optionsOf(lock, options, call), (lease) => {
        tenancy = this.#judge.handed(call, lease);
        return this.#work(tenancy, steps);
      });
    } catch (error) {
      failure = error;
    }
    this.#judge.settled(call, failure);
    if (tenancy !== undefined) this.#judge.runEnded(tenancy, failure);
    if (failure !== undefined) throw failure;
  }

  async #work(tenancy: Tenancy, steps: Steps): Promise<void> {
    const { client, lease } = tenancy;
    this.#stage.say(() => `${client.name}: work under ${lease.name} begins`);
    this.#judge.workBegins(tenancy);
    let resolved = false;
    try {
      await inside(tenancy, () => this.#all(client, steps));
      resolved = true;
    } finally {
      this.#stage.say(() => `${client.name}: work under ${lease.name} ${resolved ? "is done" : "fails"}`);
      this.#judge.workEnds(tenancy, resolved);
    }
  }

  async #acquire(client: Client, step: Of<"acquire" | "try">): Promise<void> {
    const { do: verb, lock, with: options = {}, slot = 0 } = step;
    const call = this.#call(client, verb, lock, options);
    const { wait: _, ...look } = optionsOf(lock, options, call);
    try {
      const lease =
        verb === "try"
          ? await client.locks.tryAcquire(lock, look)
          : await client.locks.acquire(lock, optionsOf(lock, options, call));
      if (lease === null) this.#judge.tries.refused(call);
      else this.#slotsOf(client)[slot] = this.#judge.handed(call, lease);
      this.#judge.settled(call);
    } catch (error) {
      this.#judge.settled(call, error);
      throw error;
    }
  }

  async #elect(client: Client, { lock, steps, with: options = {} }: Of<"elect">): Promise<void> {
    if (++this.#candidates > CANDIDATES_MOST) return;
    const call = this.#call(client, "elect", lock, options);
    const { wait: _, ...rest } = optionsOf(lock, options, call);
    let terms = 0;
    try {
      await client.locks.elect(lock, rest, (lease) =>
        this.#work(this.#judge.handed(call, lease), ++terms > TERMS_MOST ? [] : steps),
      );
      this.#judge.settled(call);
    } catch (error) {
      this.#judge.settled(call, error);
    }
  }

  #release(client: Client, { do: how, slot, loose }: Of<"release" | "dispose">): Promise<void> | undefined {
    const tenancy = this.#lease(client, slot);
    if (tenancy === undefined || tenancy.released) return undefined;
    const states = peek(tenancy.lease);
    const before = states.every(({ state }) => state === "held");
    this.#judge.truth.note(tenancy, states);
    tenancy.released = true;
    tenancy.ended = true;
    const call = this.#call(client, "release", [...tenancy.lease.fences.keys()]);
    const done: Promise<unknown> =
      how === "release"
        ? tenancy.lease.release().then((result) => this.#judge.released(tenancy, result, before))
        : Promise.resolve(tenancy.lease[Symbol.asyncDispose]());
    return this.#reported(call, done, loose);
  }

  #extend(client: Client, { slot, ttl, loose }: Of<"extend">): Promise<void> | undefined {
    const tenancy = this.#lease(client, slot);
    if (tenancy === undefined) return undefined;
    const call = this.#call(client, "extend", [...tenancy.lease.fences.keys()], ttl ? { ttl } : {});
    return this.#reported(call, tenancy.lease.extend(ttl), loose);
  }

  #reported(call: Call, done: Promise<unknown>, loose: true | undefined): Promise<void> | undefined {
    const reported = done.then(
      () => this.#judge.settled(call),
      (error: unknown) => this.#judge.settled(call, error),
    );
    return loose === true ? undefined : reported;
  }

  async #check(client: Client, { slot, times = 1 }: Of<"check">): Promise<void> {
    const lease = this.#lease(client, slot)?.lease;
    for (let time = 0; lease !== undefined && time < times; time++) {
      if (time > 0) await client.process.sleep(1);
      try {
        lease.assertHeld();
      } catch {
        // That it may say so is what it is for; whether it is right is judged by looking at all leases.
      }
    }
  }

  #listen(client: Client, { slot, steps }: Of<"listen">): undefined {
    const tenancy = this.#lease(client, slot);
    if (tenancy === undefined) return;
    if (tenancy.signal === undefined) tenancy.listensIn = around();
    tenancy.signal = tenancy.lease.signal;
    if (steps.length === 0 || tenancy.signal.aborted) return;
    const act = (): void => inside(tenancy.listensIn, () => this.start(client, steps));
    tenancy.signal.addEventListener("abort", act, { once: true });
  }

  /** Every process's signal of that number: each process has its own, and learns of it when it runs. */
  #abort(index: number): undefined {
    for (const { process, signal } of this.#stage.clients) {
      process.deliver(() => {
        const controller = signal(index);
        this.#judge.aborted(controller.signal);
        controller.abort(new ProgramError("it is not wanted any more"));
      });
    }
  }

  close(client: Client, { force, grace }: Omit<Of<"close">, "do">): Promise<void> | undefined {
    const call = this.#call(client, "close", []);
    this.#judge.closings.called(client, force === true);
    this.#stage.say(() => `${client.name}: close(${force === true ? "force" : ""})`);
    const closing = client.locks.close({ ...(force && { force }), ...(grace !== undefined && { grace }) }).then(
      () => {
        this.#stage.say(() => `${client.name}: closed`);
        this.#judge.settled(call);
        this.#judge.closings.settled(client, "resolved");
      },
      (error: unknown) => {
        this.#judge.settled(call, error);
        this.#judge.closings.settled(client, "rejected");
        // Work that has the lock and has not started yet counts as running too.
        const running = this.#judge.pending.some(
          ({ client: who, verb }) => who === client && (verb === "run" || verb === "elect"),
        );
        if (error instanceof LockClosedError && (force === true || !running))
          this.#judge.fail("unexpected error", `${client.name}'s close() rejects: ${error.message}`);
      },
    );
    // A function that waits for close() waits for itself.
    return grace === undefined && around() !== undefined ? undefined : closing;
  }

  async #force(client: Client, lock: string): Promise<void> {
    const view = this.#stage.store.view().find(({ name }) => name === lock);
    const [lease] = view?.held ?? [];
    if (lease === undefined) return;
    client.asking++;
    // A store that cannot be asked is not what this is about.
    await client.locks.forceRelease(lock, { fence: lease.fence, reason: "for sport" }).catch(() => undefined);
    client.asking--;
  }

  #slotsOf(client: Client): (Tenancy | undefined)[] {
    const slots = this.#slots.get(client) ?? [];
    this.#slots.set(client, slots);
    return slots;
  }

  #lease(client: Client, slot: number | undefined): Tenancy | undefined {
    return slot === undefined ? around() : this.#slotsOf(client)[slot];
  }
}

function optionsOf(lock: LockNames, options: Options, { signal }: Call): AcquireOptions {
  const pool = typeof lock === "string" && isPool(lock);
  const { signal: _, ...rest } = options;
  return { ...rest, ...(pool && { limit: 2 }), ...(signal !== undefined && { signal }) };
}

/** A failure reaches the step that waits for it; failures of loose work are caught here. */
function orCaught(doing: Promise<unknown>, loose: true | undefined): Promise<unknown> {
  return loose === true ? doing : doing.catch(() => undefined);
}
