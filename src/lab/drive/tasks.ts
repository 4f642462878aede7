/** Calls under way: each must settle within a bound, whatever the network does. */
import { machineMs } from "../../contract/machine-clock.ts";
import type { Reporter } from "./report.ts";

/** A starved machine, a client library's own time limits. */
const SLACK_MS = 12_000;
const LOOK_MS = 250;

interface Task {
  readonly step: number;
  readonly what: string;
  readonly dueMs: number;
  reported: boolean;
}

export class Tasks {
  readonly #reporter: Reporter;
  readonly #tasks: Set<Task> = new Set();
  readonly #timer: NodeJS.Timeout;
  #empty: (() => void) | undefined;

  constructor(reporter: Reporter) {
    this.#reporter = reporter;
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
  }

  get size(): number {
    return this.#tasks.size;
  }

  /** Follows a call that must settle within `withinMs` and some slack. */
  async follow<T>(step: number, what: string, withinMs: number, call: Promise<T>): Promise<T> {
    const task = { step, what, dueMs: machineMs() + withinMs + SLACK_MS, reported: false };
    this.#tasks.add(task);
    try {
      return await call;
    } finally {
      this.#tasks.delete(task);
      if (this.#tasks.size === 0) this.#empty?.();
    }
  }

  /** Resolves when nothing is under way, or when all that is has been found to be overdue. */
  async settled(): Promise<void> {
    while (this.#pending() > 0) {
      await new Promise<void>((resolve) => {
        this.#empty = resolve;
        setTimeout(resolve, LOOK_MS);
      });
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #pending(): number {
    return [...this.#tasks].filter(({ reported }) => !reported).length;
  }

  #look(): void {
    const nowMs = machineMs();
    for (const task of this.#tasks) {
      if (task.reported || nowMs < task.dueMs) continue;
      task.reported = true;
      this.#reporter.find({ step: task.step, rule: "does not settle", message: task.what });
    }
  }
}
