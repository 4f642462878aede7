/**
 * A backend between which and its caller things go wrong: requests that never leave, replies that are lost after the
 * work was done, answers that never come, errors of other people's making, and delays in both directions. A call that
 * nothing happens to goes straight through: not even a turn of the microtask queue is added.
 */
import type { Backend, Listener, Member } from "../contract/backend.ts";
import { type Clock, systemClock } from "../contract/clock.ts";
import { LockBackendError } from "../contract/errors.ts";
import { type Fault, type Faults, type Operation, Weather, type WeatherPlan } from "./faults.ts";

export interface FaultPlan extends WeatherPlan {
  /** For delays. @default the system's clock */
  readonly clock?: Clock | undefined;
  /** What the backend is to lack, though the store has it. @default nothing */
  readonly without?: readonly ("swap" | "watch" | "listen")[] | undefined;
  /** Hands over what reaches the caller late or unasked, so that a process that stands still gets it later. @default at once */
  readonly deliver?: ((arrive: () => void) => void) | undefined;
}

export type Faulty<B extends Backend> = B & { readonly faults: Faults };

/** Wraps a backend so that calls to it fail as `plan` says. */
export function faulty<B extends Backend>(backend: B, plan: FaultPlan = {}): Faulty<B> {
  const weather = new Weather(plan);
  const way = new Way(backend, plan, weather);
  const has = (what: "swap" | "watch" | "listen"): boolean =>
    backend[what] !== undefined && plan.without?.includes(what) !== true;
  const member = backend as Partial<Member>;
  const wrapper: Backend & Partial<Member> & { readonly faults: Faults } = {
    name: backend.name,
    faults: weather,
    ...(backend.can && { can: backend.can }),
    attempt: (claim) => way.call("attempt", claim.name, () => backend.attempt(claim)),
    renew: (claims, fences) => way.call("renew", claims[0]?.name ?? "", () => backend.renew(claims, fences)),
    release: (claim, outcome) => way.call("release", claim.name, () => backend.release(claim, outcome)),
    query: (prefix) => way.call("query", prefix, () => backend.query(prefix)),
    inspect: (name) => way.call("query", name, () => backend.inspect(name)),
    forceRelease: (name, fence, by, reason) =>
      way.call("forceRelease", name, () => backend.forceRelease(name, fence, by, reason)),
    close: () => backend.close(),
    ...(backend.renewer && { renewer: backend.renewer }),
    ...(backend.steal && {
      steal: (claim, reason) => way.call("attempt", claim.name, () => backend.steal!(claim, reason)),
    }),
    ...(backend.forget && { forget: (name, fence) => way.call("release", name, () => backend.forget!(name, fence)) }),
    ...(backend.expectWanted && { expectWanted: (claim) => backend.expectWanted!(claim) }),
    ...(has("watch") && { watch: (claim, signal) => way.watch(claim, signal) }),
    ...(has("swap") && { swap: (held, next) => way.call("swap", held.name, () => backend.swap!(held, next)) }),
    ...(has("listen") && { listen: (listener) => backend.listen!(way.listener(listener)) }),
    ...(member.vote && { vote: (claim, ballot) => way.call("vote", claim.name, () => member.vote!(claim, ballot)) }),
  };
  return wrapper as unknown as Faulty<B>;
}

/** The way to the backend and back. */
class Way {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #weather: Weather;
  readonly #deliver: ((arrive: () => void) => void) | undefined;

  constructor(backend: Backend, { clock = systemClock, deliver }: FaultPlan, weather: Weather) {
    this.#backend = backend;
    this.#clock = clock;
    this.#weather = weather;
    this.#deliver = deliver;
  }

  call<T>(operation: Operation, name: string, work: () => Promise<T>): Promise<T> {
    const fault = this.#weather.draw(operation);
    return fault === undefined ? work() : this.#suffer(fault, operation, name, work);
  }

  async watch(
    ...[claim, signal]: Parameters<NonNullable<Backend["watch"]>>
  ): ReturnType<NonNullable<Backend["watch"]>> {
    const fault = this.#weather.draw("watch");
    if (fault?.fault === "request-lost") throw this.#lost(claim.name, "watch: the request was lost");
    if (fault?.fault === "error") throw foreign(fault);
    if (fault?.fault === "delay") await Promise.race([this.#pause(fault.requestMs), aborted(signal)]);
    const news = await this.#backend.watch!(claim, signal);
    if (fault?.fault === "delay") await Promise.race([this.#pause(fault.replyMs), aborted(signal)]);
    if (fault?.fault === "reply-lost" || fault?.fault === "hang") await aborted(signal);
    else if (this.#deliver !== undefined) await Promise.race([this.#arrived(), aborted(signal)]);
    // A caller that has given up gets no answer.
    return signal.aborted ? undefined : news;
  }

  listener(listener: Listener): Listener {
    return {
      lost: (id, reason) => this.#deliverLater(() => listener.lost(id, reason)),
      doubt: () => this.#deliverLater(() => listener.doubt()),
      wanted: (id) => this.#deliverLater(() => listener.wanted?.(id)),
    };
  }

  async #suffer<T>(fault: Fault, operation: Operation, name: string, work: () => Promise<T>): Promise<T> {
    const lost = fault.fault === "request-lost" || ("done" in fault ? fault.done !== true : isSilent(fault));
    if (fault.fault === "delay") await this.#pause(fault.requestMs);
    const reply = lost ? undefined : await work();
    if (fault.fault === "hang") await new Promise(() => undefined);
    if (fault.fault === "error") throw foreign(fault);
    if (fault.fault === "request-lost") throw this.#lost(name, `${operation}: the request was lost`);
    if (fault.fault === "reply-lost") throw this.#lost(name, `${operation}: the reply was lost`);
    if (fault.fault === "delay") {
      await this.#pause(fault.replyMs);
      // Also where only the request was slow: its caller may stand still by now.
      await this.#arrived();
    }
    return reply as T;
  }

  /** A message that the backend sends by itself: it comes, comes late, or does not come. */
  #deliverLater(arrive: () => void): void {
    const fault = this.#weather.draw("listen");
    const hand = (): void => (this.#deliver === undefined ? arrive() : this.#deliver(arrive));
    if (fault === undefined) hand();
    else if (fault.fault === "delay") this.#clock.setTimer(hand, (fault.requestMs ?? 0) + (fault.replyMs ?? 0), true);
  }

  /** Waits until the caller's process runs. */
  async #arrived(): Promise<void> {
    const deliver = this.#deliver;
    if (deliver !== undefined) await new Promise<void>((resolve) => deliver(resolve));
  }

  async #pause(ms = 0): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => this.#clock.setTimer(resolve, ms, true));
  }

  #lost(name: string, what: string): LockBackendError {
    return new LockBackendError(this.#backend.name, name, `${what} (a fault made by faulty())`);
  }
}

/** Faults that keep the request from the store unless they say that it was done. */
function isSilent({ fault }: Fault): boolean {
  return fault === "hang" || fault === "error";
}

function foreign({ message }: Fault & { readonly fault: "error" }): Error {
  return new Error(message ?? "socket hang up (a fault made by faulty())");
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
