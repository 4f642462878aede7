/**
 * The keys of redlock, as its pods have them: a string for each resource, with one random value. An attempt without a majority takes back what it
 * got before the next one, and the time of a lock counts from the attempt that got it.
 */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { Script } from "../rolling/generated/scripts.ts";
import { type AnyClient, type Call, run } from "../rolling/run-script.ts";
import type { ExecutionResult, ExecutionStats, Grant, Held, Place, Settings } from "./api.ts";
import { ask, type Ballot } from "./ballot.ts";
import { noQuorum } from "./errors.ts";

export interface Scripts {
  readonly acquire: Script;
  readonly extend: Script;
  readonly release: Script;
}

interface Terms {
  readonly settings: Settings;
  /** For how long the locks are asked for. An answer after that is none. */
  readonly durationMs: number;
  /** After each attempt that failed. */
  readonly failed?: (ballot: Ballot) => void;
}

export class Rolling implements Place {
  readonly #clients: ReadonlySet<AnyClient>;
  readonly #scripts: Scripts;
  readonly #report: (error: Error) => void;

  constructor(clients: ReadonlySet<AnyClient>, scripts: Scripts, report: (error: Error) => void) {
    this.#clients = clients;
    this.#scripts = scripts;
    this.#report = report;
  }

  async take({ resources, value }: Held, durationMs: number, settings: Settings): Promise<Grant> {
    const call: Call = { script: this.#scripts.acquire, keys: resources, args: [value, String(durationMs)] };
    const undo: Call = { script: this.#scripts.release, keys: resources, args: [value] };
    // A client sends in order: what is taken back here is gone before the next attempt comes.
    const failed = (ballot: Ballot): void => {
      for (const client of ballot.mayHave()) void run(client, undo).catch(() => {});
    };
    try {
      const { attempts, fromMs, fences } = await this.#until(call, { settings, durationMs, failed });
      return { attempts, fromMs, fences: new Map(resources.flatMap((name) => this.#fenceOf(name, fences))) };
    } catch (error) {
      await ask(this.#clients, undo, durationMs, () => {}).decided;
      throw error;
    }
  }

  async extend(
    { resources, value }: Held,
    durationMs: number,
    settings: Settings,
  ): Promise<ExecutionResult & { fromMs: number }> {
    const call: Call = { script: this.#scripts.extend, keys: resources, args: [value, String(durationMs)] };
    return await this.#until(call, { settings, durationMs });
  }

  async release({ resources, value }: Held, settings: Settings): Promise<ExecutionResult> {
    const call: Call = { script: this.#scripts.release, keys: resources, args: [value] };
    const { attempts } = await this.#until(call, { settings, durationMs: Infinity });
    return { attempts };
  }

  /** Tries until a majority has done it, as often as the settings say. */
  async #until(
    call: Call,
    { settings, durationMs, failed }: Terms,
  ): Promise<ExecutionResult & { fromMs: number; fences: readonly bigint[] }> {
    const { retryCount, retryDelay, retryJitter, driftFactor } = settings;
    const most = retryCount === -1 ? Infinity : retryCount + 1;
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      const fromMs = Date.now();
      const sentMs = performance.now();
      const ballot = ask(this.#clients, call, durationMs, this.#report);
      attempts.push(ballot.stats);
      const isDone = await ballot.decided;
      // A majority that came together after the first of its locks was over is none.
      const isLate = performance.now() - sentMs >= durationMs - driftOf(durationMs, driftFactor);
      if (isDone && !isLate) return { attempts, fromMs, fences: ballot.fences };
      if (!(attempts.length < most)) throw noQuorum(attempts);
      failed?.(ballot);
      await sleep(Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter)));
    }
  }

  /** Servers do not agree on a number; one alone has its clock. */
  #fenceOf(name: string, fences: readonly bigint[]): readonly (readonly [string, bigint])[] {
    const [fence] = fences;
    return this.#clients.size > 1 || fence === undefined ? [] : [[name, fence]];
  }
}

/** What is kept back of a lock's time: for clocks that run differently, and 2 ms because Redis counts in whole ones. */
export function driftOf(durationMs: number, driftFactor: number): number {
  return Number.isFinite(durationMs) ? Math.round(driftFactor * durationMs) + 2 : 0;
}
