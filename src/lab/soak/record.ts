/** What a soak of one backend has seen: the history of its locks, epoch by epoch, judged and then forgotten. */
import { memoryMarks } from "../../fence/index.ts";
import { checkHistory } from "../../testing/history/check.ts";
import type { ClaimantEvent, Violation } from "../../testing/history/events.ts";
import { machineMs } from "../../contract/machine-clock.ts";

/** What may have to do with a violation happened at most this long before it. */
const NEARBY_MS = 15_000;

/** Late events of a stopped client on a starved machine still belong to their epoch. */
const JUDGE_AFTER_EPOCHS = 4;

export class SoakRecord {
  readonly violations: Violation[] = [];
  readonly faults: Map<string, number> = new Map();
  readonly #faultTimes: { readonly kind: string; readonly atMs: number }[] = [];
  sections = 0;
  refusals = 0;
  /** Writes that the guard refused: what a late holder sent. */
  refusedWrites = 0;
  lastHeldMs = 0;
  /** Events that came after the history of their lock had been judged: nothing is known of them. */
  tooLate = 0;
  #judgedBefore = 0;
  readonly #epochMs: number;
  readonly #histories = new Map<string, ClaimantEvent[]>();
  readonly #holding = new Map<string, ClaimantEvent & { readonly kind: "held" }>();
  /** When clients were killed. */
  readonly #deaths = new Map<string, number>();
  readonly #marks = new Map<string, ReturnType<typeof memoryMarks>>();

  constructor(epochMs: number) {
    this.#epochMs = epochMs;
  }

  hear(event: ClaimantEvent): void {
    this.#keep(event);
    if (event.kind === "held") {
      this.#holding.set(event.who, event);
      this.#bury(event);
      this.lastHeldMs = Math.max(this.lastHeldMs, event.atMs);
    } else if (event.kind === "releasing" || event.kind === "lost") this.#holding.delete(event.who);
    else if (event.kind === "released") this.sections++;
    else if (event.kind === "refused") this.refusals++;
  }

  /** The guarded register: takes the write unless a greater fence was here. */
  async write(lock: string, who: string, fence: bigint): Promise<void> {
    const marks = this.#marks.get(lock) ?? memoryMarks();
    this.#marks.set(lock, marks);
    const atMs = machineMs();
    const accepted = (await marks.advance(lock, fence)) === fence;
    if (!accepted) this.refusedWrites++;
    this.#keep({ kind: "wrote", atMs, lock, who, fence, accepted });
  }

  /** A killed client believes nothing from then on, also if its last words arrive later. */
  killed(client: string, atMs: number): void {
    this.#deaths.set(client, atMs);
    for (const event of this.#holding.values()) this.#bury(event);
  }

  #bury({ who, lock, fence, atMs }: ClaimantEvent & { readonly kind: "held" }): void {
    const diedMs = this.#deaths.get(who.slice(0, who.indexOf("/")));
    if (diedMs === undefined) return;
    this.#holding.delete(who);
    this.#keep({ kind: "lost", atMs: Math.max(diedMs, atMs), lock, who, fence });
  }

  fault(kind: string): void {
    this.#faultTimes.push({ kind, atMs: machineMs() });
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
  }

  /** The violation in words, with the faults before it: a report from long ago cannot be asked any more. */
  describe({ oracle, lock, message, atMs }: Violation): string {
    const near = this.#faultTimes.filter((fault) => fault.atMs <= atMs && atMs - fault.atMs < NEARBY_MS);
    const faults = near.map((fault) => `${fault.kind} ${Math.round(atMs - fault.atMs)} ms`);
    return `${oracle} ${lock}: ${message}; faults before it: ${faults.join(", ") || "none"}`;
  }

  stalled(message: string): void {
    this.violations.push({ oracle: "O5 liveness", atMs: machineMs(), lock: "*", message });
  }

  /** Judges the epochs that are over, or all. */
  judge(all = false): void {
    if (!all) this.#judgedBefore = Math.floor(machineMs() / this.#epochMs) - JUDGE_AFTER_EPOCHS;
    for (const [lock, events] of this.#histories) {
      if (!all && epochOf(lock) >= this.#judgedBefore) continue;
      this.#histories.delete(lock);
      this.#marks.delete(lock);
      // Processes report at their own pace; a write counts when it arrived.
      this.violations.push(...checkHistory(events.toSorted((a, b) => a.atMs - b.atMs)));
    }
  }

  #keep(event: ClaimantEvent): void {
    if (epochOf(event.lock) < this.#judgedBefore) {
      this.tooLate++;
      return;
    }
    const events = this.#histories.get(event.lock);
    if (events === undefined) this.#histories.set(event.lock, [event]);
    else events.push(event);
  }
}

/** `soak:<epoch>:<lock>` */
function epochOf(lock: string): number {
  return Number(lock.split(":")[1]);
}
