/** What goes wrong between a backend and its caller: by command, by the number of a call, by a function, or by dice. */
import { seeded } from "./seeded-random.ts";

/** `listen` is each message that the backend sends by itself. */
export type Operation =
  | "attempt"
  | "watch"
  | "renew"
  | "release"
  | "swap"
  | "query"
  | "forceRelease"
  | "vote"
  | "listen";

export type Fault =
  /** The store never sees the request; the caller gets an error. */
  | { readonly fault: "request-lost" }
  /** The store does it, but the caller gets an error. News of a watch just never comes. */
  | { readonly fault: "reply-lost" }
  /** The store sees the request late, or the caller the reply. */
  | { readonly fault: "delay"; readonly requestMs?: number; readonly replyMs?: number }
  /** The caller gets no answer, ever. The store does it only if `done`. */
  | { readonly fault: "hang"; readonly done?: boolean }
  /** The caller gets an error that is none of ours, as from a client library. The store does it only if `done`. */
  | { readonly fault: "error"; readonly message?: string; readonly done?: boolean };

/** The n-th call of an operation suffers the fault; 1 is the first. */
export interface FaultAt {
  readonly operation: Operation;
  readonly nth: number;
  readonly fault: Fault;
}

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

export interface WeatherPlan extends FaultDice {
  /** Faults by the number of the call. They go before `decide` and dice. */
  readonly at?: readonly FaultAt[] | undefined;
  /** Decides for each call, instead of the dice; `nth` counts the calls of the operation from 1. */
  readonly decide?: ((operation: Operation, nth: number) => Fault | undefined) | undefined;
}

export class Weather implements Faults {
  readonly #decide: (operation: Operation, nth: number) => Fault | undefined;
  readonly #commands = new Map<Operation, { readonly fault: Fault; times: number }[]>();
  readonly #at: readonly FaultAt[];
  readonly #calls = new Map<Operation, number>();
  #healed = false;
  count = 0;

  constructor(plan: WeatherPlan) {
    this.#at = plan.at ?? [];
    this.#decide = plan.decide ?? dice(plan);
  }

  next(operation: Operation, fault: Fault, times = 1): void {
    const commands = this.#commands.get(operation) ?? [];
    this.#commands.set(operation, commands);
    commands.push({ fault, times });
  }

  draw(operation: Operation): Fault | undefined {
    const nth = (this.#calls.get(operation) ?? 0) + 1;
    this.#calls.set(operation, nth);
    const drawn = this.#command(operation) ?? (this.#healed ? undefined : this.#planned(operation, nth));
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

  #command(operation: Operation): Fault | undefined {
    const commands = this.#commands.get(operation);
    const command = commands?.[0];
    if (command !== undefined && --command.times === 0) commands!.shift();
    return command?.fault;
  }

  #planned(operation: Operation, nth: number): Fault | undefined {
    for (const at of this.#at) if (at.operation === operation && at.nth === nth) return at.fault;
    return this.#decide(operation, nth);
  }
}

function dice(plan: FaultDice): () => Fault | undefined {
  const { seed = 1, requestLost = 0, replyLost = 0, delayed = 0, delayMs = 100 } = plan;
  if (requestLost + replyLost + delayed === 0) return () => undefined;
  const chance = seeded(seed);
  return () => {
    if (chance.happens(requestLost)) return { fault: "request-lost" };
    if (chance.happens(replyLost)) return { fault: "reply-lost" };
    if (!chance.happens(delayed)) return undefined;
    return { fault: "delay", requestMs: chance.between(0, delayMs), replyMs: chance.between(0, delayMs) };
  };
}
