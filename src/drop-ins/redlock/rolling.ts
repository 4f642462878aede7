/**
 * The keys of redlock, as its pods have them: a string for each resource, with one random value. An attempt without a majority takes back what it
 * got before the next one, and the time of a lock counts from the attempt that got it.
 */
import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { Script } from "../rolling/generated/scripts.ts";
import { type AnyClient, type Call, run, TTL_MIN_MS } from "../rolling/run-script.ts";
import type { ExecutionResult, ExecutionStats, Grant, Held, Place, Settings, Timed } from "./api.ts";
import { ask } from "./ballot.ts";
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
  /** Until when it is tried, by `performance.now()`. */
  readonly untilMs: number;
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

  /** Each attempt has a value of its own, so that what takes back a lost one cannot take a later one away, however late it comes. */
  async take(resources: readonly string[], durationMs: number, settings: Settings): Promise<Grant> {
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      const value = randomBytes(16).toString("hex");
      const [take, undo] = this.#calls(resources, value, durationMs);
      const sentMs = performance.now();
      const fromMs = Date.now();
      const ballot = ask(this.#clients, take, answerMs(durationMs), this.#report);
      attempts.push(ballot.stats);
      const isDone = await ballot.decided;
      // A majority that came together after the first of its locks was over is none.
      if (isDone && performance.now() < trustedUntil(sentMs, durationMs, settings)) {
        const fences = new Map(resources.flatMap((name) => this.#fenceOf(name, ballot.fences)));
        return { attempts, value, sentMs, fromMs, fences };
      }
      if (!mayTry(attempts.length, settings)) {
        await ask(this.#clients, undo, answerMs(durationMs), () => {}).decided;
        throw noQuorum(attempts);
      }
      for (const client of ballot.mayHave()) void run(client, undo).catch(() => {});
      await pause(settings);
    }
  }

  /** A majority that came together after the lock was over is none: another may have had it in between. */
  async extend({ resources, value }: Held, durationMs: number, untilMs: number, settings: Settings): Promise<Timed> {
    const call: Call = { script: this.#scripts.extend, keys: distinct(resources), args: [value, String(durationMs)] };
    const timed = await this.#until(call, { settings, durationMs, untilMs });
    if (performance.now() >= untilMs) throw noQuorum(timed.attempts);
    return timed;
  }

  async release({ resources, value }: Held, limitMs: number, settings: Settings): Promise<ExecutionResult> {
    const call: Call = { script: this.#scripts.release, keys: distinct(resources), args: [value] };
    const untilMs = performance.now() + limitMs;
    const { attempts } = await this.#until(call, { settings, durationMs: Infinity, untilMs });
    return { attempts };
  }

  /** Tries until a majority has done it, as often as the settings say. Not after a majority has refused, or when there is nothing left to do it to. */
  async #until(call: Call, { settings, durationMs, untilMs }: Terms): Promise<Timed> {
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      const sentMs = performance.now();
      const fromMs = Date.now();
      const limitMs = Math.max(1, Math.min(answerMs(durationMs), untilMs - sentMs));
      const ballot = ask(this.#clients, call, limitMs, this.#report);
      attempts.push(ballot.stats);
      const isDone = await ballot.decided;
      const nowMs = performance.now();
      if (isDone && nowMs < trustedUntil(sentMs, durationMs, settings)) return { attempts, sentMs, fromMs };
      if (nowMs >= untilMs || ballot.isRefused() || !mayTry(attempts.length, settings)) {
        throw noQuorum(attempts, ballot.isRefused());
      }
      await pause(settings);
    }
  }

  #calls(resources: readonly string[], value: string, durationMs: number): readonly [Call, Call] {
    const keys = distinct(resources);
    return [
      { script: this.#scripts.acquire, keys, args: [value, String(durationMs)] },
      { script: this.#scripts.release, keys, args: [value] },
    ];
  }

  /** Servers do not agree on a number; one alone has its clock. */
  #fenceOf(name: string, fences: readonly bigint[]): readonly (readonly [string, bigint])[] {
    const [fence] = fences;
    return this.#clients.size > 1 || fence === undefined ? [] : [[name, fence]];
  }
}

/** One that is named twice would be released once. */
function distinct(resources: readonly string[]): readonly string[] {
  return [...new Set(resources)];
}

function mayTry(attempts: number, { retryCount }: Settings): boolean {
  return retryCount === -1 || attempts < retryCount + 1;
}

async function pause({ retryDelay, retryJitter }: Settings): Promise<void> {
  await sleep(Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter)));
}

/** For no time at all there is no answer in time: the server says what is wrong with it. */
function answerMs(durationMs: number): number {
  return Math.max(TTL_MIN_MS, durationMs);
}

/** Until when a lock is believed: counted from when it was asked for, by the monotonic clock. */
export function trustedUntil(sentMs: number, durationMs: number, { driftFactor }: Settings): number {
  return sentMs + durationMs - driftOf(durationMs, driftFactor);
}

/** What is kept back of a lock's time: for clocks that run differently, and 2 ms because Redis counts in whole ones. */
function driftOf(durationMs: number, driftFactor: number): number {
  return Number.isFinite(durationMs) ? Math.round(driftFactor * durationMs) + 2 : 0;
}
