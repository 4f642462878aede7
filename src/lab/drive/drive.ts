/** The driver: rounds on a real store, one seed each, until the time is over; whatever is found names its seed and step. */
import { setTimeout as sleep } from "node:timers/promises";
import { castHere } from "./cast.ts";
import type { ClientLibrary } from "./connections.ts";
import { loadHoldfast } from "./library.ts";
import { playRound } from "./round.ts";
import { openDrivenStore } from "./stores/open.ts";
import type { StoreName } from "./store.ts";

export interface DriveOptions {
  readonly store: StoreName;
  /** The first round's; each further round has the next. */
  readonly seed: number;
  /** New rounds begin until this is over. */
  readonly seconds: number;
  /** At most so many rounds. @default no limit */
  readonly rounds?: number | undefined;
  /** @default "ioredis" */
  readonly client?: ClientLibrary | undefined;
  /** Another build of Holdfast, to see what would have been found there. @default this one */
  readonly dist?: string | undefined;
  /** False: others use this process too, so what is left open in it proves nothing. @default true */
  readonly alone?: boolean | undefined;
  /** Goes on after a finding. @default false */
  readonly keepGoing?: boolean | undefined;
  readonly onRound?: ((summary: DriveSummary) => void) | undefined;
}

export interface DriveSummary {
  readonly store: StoreName;
  readonly client: string;
  readonly seed: number;
  readonly seconds: number;
  rounds: number;
  steps: number;
  faults: number;
  counts: Record<string, number>;
  /** `seed=… step=…: rule: what`. */
  findings: string[];
}

/** What a client library may keep for a moment after it was closed. */
const LEFTOVER_LOOKS = 120;

export async function drive(options: DriveOptions): Promise<DriveSummary> {
  const { store: name, seed, seconds, client = "ioredis" } = options;
  const holdfast = await loadHoldfast(options.dist);
  const summary: DriveSummary = {
    store: name,
    client: name === "zookeeper" || name === "etcd" || name === "file" ? "-" : client,
    seed,
    seconds,
    rounds: 0,
    steps: 0,
    faults: 0,
    counts: {},
    findings: [],
  };
  const strays = new Strays();
  // Opened here at the latest: otherwise the first output would open it.
  void [process.stdout, process.stderr];
  const before = process.getActiveResourcesInfo();
  {
    await using store = await openDrivenStore(name, holdfast, client, options.dist);
    const endMs = performance.now() + seconds * 1000;
    const makeCast = store.cast ?? ((...[driven, report, terms]) => castHere(driven, holdfast, report, terms));
    for (let at = seed; performance.now() < endMs && summary.rounds < (options.rounds ?? Infinity); at++) {
      const { findings, counts, steps, faults } = await playRound(store, at, makeCast);
      summary.rounds++;
      summary.steps += steps;
      summary.faults += faults;
      for (const [what, count] of counts) summary.counts[what] = (summary.counts[what] ?? 0) + count;
      for (const { step, rule, message } of findings)
        summary.findings.push(`seed=${at} step=${step}: ${rule}: ${message}`);
      for (const stray of strays.take()) summary.findings.push(`seed=${at} step=0: ${stray}`);
      options.onRound?.(summary);
      if (summary.findings.length > 0 && options.keepGoing !== true) break;
    }
  }
  const left = options.alone === false ? [] : await leftovers(before);
  if (left.length > 0) summary.findings.push(`seed=${seed} step=0: left in the process: ${left.join(", ")}`);
  for (const stray of strays.stop()) summary.findings.push(`seed=${seed} step=0: ${stray}`);
  return summary;
}

/** Unhandled rejections, and warnings such as that of too many listeners. */
class Strays {
  #found: string[] = [];
  readonly #rejection = (reason: unknown): void => void this.#found.push(`unhandled rejection: ${String(reason)}`);
  readonly #warning = (warning: Error): void => void this.#found.push(`warning: ${warning.name}: ${warning.message}`);

  constructor() {
    process.on("unhandledRejection", this.#rejection).on("warning", this.#warning);
  }

  take(): readonly string[] {
    return this.#found.splice(0);
  }

  stop(): readonly string[] {
    process.off("unhandledRejection", this.#rejection).off("warning", this.#warning);
    return this.take();
  }
}

/** Sockets, timers and handles that were not there before. */
async function leftovers(before: readonly string[]): Promise<readonly string[]> {
  for (let looks = 0; ; looks++) {
    const left = process.getActiveResourcesInfo();
    for (const resource of before) {
      const at = left.indexOf(resource);
      if (at >= 0) left.splice(at, 1);
    }
    if (left.length === 0 || looks === LEFTOVER_LOOKS) return left;
    await sleep(100);
  }
}
