/**
 * A backend between which and its caller things go wrong, on command or by dice: requests that never leave, replies that
 * are lost after the work was done, and delays in both directions.
 */
import type { Backend, Member } from "../backend.ts";
import { type Clock, systemClock } from "../clock.ts";
import { LockBackendError } from "../errors.ts";
import { seeded } from "./seeded.ts";

export type Operation = "attempt" | "watch" | "renew" | "release" | "swap" | "query" | "forceRelease" | "vote";

export type Fault =
  /** The store never sees the request; the caller gets an error. */
  | { readonly fault: "request-lost" }
  /** The store does it, but the caller gets an error. News of a watch just never comes. */
  | { readonly fault: "reply-lost" }
  /** The store sees the request late, or the caller the reply. */
  | { readonly fault: "delay"; readonly requestMs?: number; readonly replyMs?: number };

export interface FaultDice {
  /** The same seed makes the same faults for the same calls. @default 1 */
  readonly seed?: number | undefined;
  /** Share of requests lost. @default 0 */
  readonly requestLost?: number | undefined;
  /** Share of replies lost. @default 0 */
  readonly replyLost?: number | undefined;
  /** Share of calls delayed, each way. @default 0 */
  readonly delayed?: number | undefined;
  /** The longest delay each way. @default 100 */
  readonly delayMs?: number | undefined;
}

export interface FaultPlan extends FaultDice {
  /** Decides for each call, instead of the dice. */
  readonly decide?: ((operation: Operation) => Fault | undefined) | undefined;
  /** For delays. @default the system's clock */
  readonly clock?: Clock | undefined;
}

export interface Faults {
  /** The next `times` calls of the operation suffer the fault. Commands go before dice. */
  next(operation: Operation, fault: Fault, times?: number): void;
  /** Every call of the operation suffers the fault, until {@link heal}. */
  always(operation: Operation, fault: Fault): void;
  /** Forgets all commands and throws no more dice: from now on everything works. */
  heal(): void;
  /** How many faults there were. */
  readonly count: number;
}

export type Faulty<B extends Backend> = B & { readonly faults: Faults };

/** Wraps a backend so that calls to it fail as `plan` says. */
export function faulty<B extends Backend>(backend: B, plan: FaultPlan = {}): Faulty<B> {
  const clock = plan.clock ?? systemClock;
  const weather = new Weather(plan);

  const call = async <T>(operation: Operation, name: string, work: () => Promise<T>): Promise<T> => {
    const fault = weather.draw(operation);
    if (fault === undefined) return work();
    if (fault.fault === "request-lost") throw broken(backend, name, `${operation}: the request was lost`);
    if (fault.fault === "delay") await pause(clock, fault.requestMs);
    const reply = await work();
    if (fault.fault === "reply-lost") throw broken(backend, name, `${operation}: the reply was lost`);
    await pause(clock, fault.replyMs);
    return reply;
  };

  const watch: Backend["watch"] = async (claim, signal) => {
    const fault = weather.draw("watch");
    if (fault?.fault === "request-lost") throw broken(backend, claim.name, "watch: the request was lost");
    if (fault?.fault === "delay") await pause(clock, fault.requestMs);
    const news = await backend.watch?.(claim, signal);
    if (fault?.fault === "reply-lost") await aborted(signal);
    if (fault?.fault === "delay") await pause(clock, fault.replyMs);
    return fault?.fault === "reply-lost" ? undefined : news;
  };

  const member = backend as Partial<Member>;
  const wrapper: Backend & Partial<Member> & { readonly faults: Faults } = {
    name: backend.name,
    faults: weather,
    attempt: (claim) => call("attempt", claim.name, () => backend.attempt(claim)),
    renew: (claims) => call("renew", claims[0]?.name ?? "", () => backend.renew(claims)),
    release: (claim) => call("release", claim.name, () => backend.release(claim)),
    query: (prefix) => call("query", prefix, () => backend.query(prefix)),
    forceRelease: (name, fence, by, reason) =>
      call("forceRelease", name, () => backend.forceRelease(name, fence, by, reason)),
    close: () => backend.close(),
    ...(backend.renewer && { renewer: backend.renewer }),
    ...(backend.watch && { watch }),
    ...(backend.swap && { swap: (held, next) => call("swap", held.name, () => backend.swap!(held, next)) }),
    ...(backend.listen && { listen: (listener) => backend.listen!(listener) }),
    ...(member.vote && { vote: (claim, ballot) => call("vote", claim.name, () => member.vote!(claim, ballot)) }),
  };
  return wrapper as unknown as Faulty<B>;
}

/** What goes wrong next. */
class Weather implements Faults {
  readonly #decide: (operation: Operation) => Fault | undefined;
  readonly #commands = new Map<Operation, { readonly fault: Fault; times: number }[]>();
  #healed = false;
  count = 0;

  constructor(plan: FaultPlan) {
    this.#decide = plan.decide ?? dice(plan);
  }

  next(operation: Operation, fault: Fault, times = 1): void {
    const commands = this.#commands.get(operation) ?? [];
    this.#commands.set(operation, commands);
    commands.push({ fault, times });
  }

  draw(operation: Operation): Fault | undefined {
    const commands = this.#commands.get(operation) ?? [];
    const [command] = commands;
    if (command !== undefined && --command.times === 0) commands.shift();
    const drawn = command?.fault ?? (this.#healed ? undefined : this.#decide(operation));
    if (drawn !== undefined) this.count++;
    return drawn;
  }

  always(operation: Operation, fault: Fault): void {
    this.next(operation, fault, Infinity);
  }

  heal(): void {
    this.#commands.clear();
    this.#healed = true;
  }
}

function dice(plan: FaultDice): () => Fault | undefined {
  const { seed = 1, requestLost = 0, replyLost = 0, delayed = 0, delayMs = 100 } = plan;
  const chance = seeded(seed);
  return () => {
    if (chance.happens(requestLost)) return { fault: "request-lost" };
    if (chance.happens(replyLost)) return { fault: "reply-lost" };
    if (!chance.happens(delayed)) return undefined;
    return { fault: "delay", requestMs: chance.between(0, delayMs), replyMs: chance.between(0, delayMs) };
  };
}

function broken(backend: Backend, name: string, what: string): LockBackendError {
  return new LockBackendError(backend.name, name, `${what} (a fault made by faulty())`);
}

async function pause(clock: Clock, ms = 0): Promise<void> {
  if (ms > 0) await new Promise<void>((resolve) => clock.setTimer(resolve, ms, true));
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
