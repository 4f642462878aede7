/** The signals that holdfast gets: they stop its waiting, or go on to the command. */
import { constants } from "node:os";

const CAUGHT = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;
/** These mean "go on", not "stop", to most programs: without a command to pass them to, they are ignored. */
const HARMLESS = new Set<NodeJS.Signals>(["SIGUSR1", "SIGUSR2"]);

export class Signals {
  /** Aborted by the first signal that comes while no command runs. */
  readonly stop: AbortController = new AbortController();
  /** True once a signal came that asks to stop, also while a command runs and gets it. */
  asked = false;
  #first: NodeJS.Signals | undefined;
  #forward: ((signal: NodeJS.Signals) => void) | undefined;
  readonly #handler = (signal: NodeJS.Signals): void => {
    this.asked ||= !HARMLESS.has(signal);
    if (this.#forward !== undefined) return this.#forward(signal);
    if (HARMLESS.has(signal)) return;
    this.#first ??= signal;
    this.stop.abort(new Error(`stopped by ${signal}`));
  };

  /** From here on no signal ends the process by itself. */
  constructor() {
    for (const signal of CAUGHT) process.on(signal, this.#handler);
  }

  /** 128 + n of the signal that stopped the waiting. */
  get exitCode(): number | undefined {
    return this.#first === undefined ? undefined : 128 + constants.signals[this.#first];
  }

  /** From here on signals go to the command; with `undefined` they stop the waiting again. */
  forwardTo(forward: ((signal: NodeJS.Signals) => void) | undefined): void {
    this.#forward = forward;
    // It came after the lock was taken and before the command could get it.
    if (this.#first !== undefined) forward?.(this.#first);
  }

  dispose(): void {
    for (const signal of CAUGHT) process.off(signal, this.#handler);
  }
}
