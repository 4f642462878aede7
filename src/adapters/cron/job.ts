/** A job with a schedule: which slot is due, and what is done about slots that no process has run. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { toMs } from "../../contract/duration.ts";
import type { Locks } from "../../core/api.ts";
import { awaitLastSlot, keepLastSlot } from "./last-slot.ts";
import { checkJob, type CheckedMissed, type CheckedSlot, type JobOptions } from "./options.ts";
import { type Failed, settle, type SlotResult, type SlotWork, thrown } from "./run-slot.ts";
import { type Schedule, slotAt, slotsBetween } from "./schedule.ts";

export class Job<T> {
  readonly #locks: Locks;
  readonly #name: string;
  readonly #schedule: Schedule;
  readonly #options: CheckedSlot;
  readonly #missed: CheckedMissed;
  readonly #work: SlotWork<T>;
  /** What this process has under way, where slots are run in order. */
  #before: Promise<unknown> = Promise.resolve();

  constructor(locks: Locks, name: string, schedule: Schedule, options: JobOptions, work: SlotWork<T>) {
    [this.#options, this.#missed] = checkJob(locks, name, options);
    if (typeof work !== "function") throw new ArgumentError(`Expected a function for the job, got ${got(work)}`);
    this.#locks = locks;
    this.#name = name;
    this.#schedule = schedule;
    this.#work = work;
  }

  /** Runs the slot that is due now. */
  async due(): Promise<SlotResult<T>> {
    const slot = slotAt(this.#schedule, new Date());
    if (slot === undefined) throw new ArgumentError(`Expected job ${got(this.#name)} to have a slot that is due`);
    if (this.#missed.run !== "all") return thrown(await this.#settle(slot));
    const results = await this.#inOrder(slot, -Infinity);
    return results.at(-1) ?? { ran: false, slot, why: "done" };
  }

  /** Runs what was missed until now, as the option says. For the start of a process. */
  async missed(): Promise<readonly SlotResult<T>[]> {
    const { run, withinMs } = this.#missed;
    if (run === "skip") return [];
    const last = await this.#last();
    const now = new Date();
    const slot = slotAt(this.#schedule, now);
    // Nothing was done before, as far as the store knows: then nothing was missed.
    if (last === undefined || slot === undefined) return [];
    if (slot.getTime() <= Math.max(last, now.getTime() - withinMs)) return [];
    return run === "last" ? [thrown(await this.#settle(slot))] : await this.#inOrder(slot, now.getTime() - withinMs);
  }

  /** One call after the other: a later one finds what the earlier ones have done. */
  async #inOrder(slot: Date, fromMs: number): Promise<readonly SlotResult<T>[]> {
    const mine = this.#before.then(() => this.#upTo(slot, fromMs));
    this.#before = mine.catch(() => undefined);
    return await mine;
  }

  /** All slots after the last one that was done, up to this one. Each is waited for, so that none begins before the one before it has ended. */
  async #upTo(slot: Date, fromMs: number): Promise<readonly SlotResult<T>[]> {
    const { withinMs, most } = this.#missed;
    const last = await this.#last();
    // The slot itself is always asked for: the last one may be later than it, by a process whose clock is early, and that one may have left it out.
    const before = slot.getTime() - 1;
    const from = Math.max(Math.min(last ?? before, before), before - withinMs, fromMs);
    const settled: (SlotResult<T> | Failed)[] = [];
    for (const one of slotsBetween(this.#schedule, from, slot, most)) settled.push(await this.#settle(one));
    // One that has failed is done, and has not kept the ones after it from running.
    return settled.map(thrown);
  }

  #last(): Promise<number | undefined> {
    const { wait, signal } = this.#options;
    return awaitLastSlot(this.#locks, this.#name, toMs(wait, "wait", { minMs: 0, maxMs: Infinity }), signal);
  }

  #settle(slot: Date): Promise<SlotResult<T> | Failed> {
    const keep = this.#missed.run === "skip" ? undefined : () => keepLastSlot(this.#locks, this.#name, slot);
    return settle(this.#locks, this.#name, slot, this.#options, this.#work, keep);
  }
}
