/**
 * The graceful end: stop acquiring, ask the work to stop, wait for it, then release and leave nothing behind. Never under a
 * running function unless asked to. Each call of close() waits with its own grace for the same end.
 */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { CloseOptions } from "./api.ts";
import type { Clock } from "../contract/clock.ts";
import type { Engine } from "./engine.ts";
import { toMs } from "../contract/duration.ts";
import { asBackendError, isA, LockBackendError, LockClosedError, LockLostError, quote } from "../contract/errors.ts";
import { checkObject } from "./options.ts";
import { asked } from "../contract/answer.ts";
import { within, withinAwake } from "../contract/time-limit.ts";

/** How long the end waits for a store that does not answer, by the time in which this process runs. */
const STORE_MAX_MS = 5000;

/** One call of run() or elect(), from before it asks for the lock until it has settled. */
export interface Call {
  readonly name: string;
}

/** The calls that are under way. Registered before they start, so that none is overlooked. */
export class Running {
  readonly calls: Set<Call> = new Set();
  #quiet: (() => void)[] = [];

  end(call: Call): void {
    this.calls.delete(call);
    if (this.calls.size > 0) return;
    for (const quiet of this.#quiet.splice(0)) quiet();
  }

  get names(): readonly string[] {
    return [...this.calls].map(({ name }) => name);
  }

  /** Resolves to true when none is under way, to false when `graceMs` has passed. */
  async settled(clock: Clock, graceMs: number): Promise<boolean> {
    if (this.calls.size === 0) return true;
    const quiet = new Promise<true>((resolve) => this.#quiet.push(() => resolve(true)));
    return (await within(clock, quiet, graceMs)) ?? false;
  }
}

export class Closing {
  readonly #engine: Engine;
  readonly #running: Running;
  #begun = false;
  #ended: Promise<void> | undefined;

  constructor(engine: Engine, running: Running) {
    this.#engine = engine;
    this.#running = running;
  }

  async close(options: CloseOptions): Promise<void> {
    // A wrong option is an error of this call, and closes nothing.
    const { grace = Infinity, force = false } = checkObject(options);
    const graceMs = toMs(grace, "grace", { minMs: 0, maxMs: Infinity });
    if (typeof force !== "boolean")
      throw new ArgumentError(`Expected \`force\` to be true or false, got ${got(force)}`);
    if (!this.#begun) this.#begin();
    const settled = await this.#running.settled(this.#engine.clock, graceMs);
    if (settled || force) return await this.#end();
    const names = this.#running.names;
    throw new LockClosedError(
      names.join(", "),
      `Work under ${names.length} lock(s) (${names.join(", ")}) still runs after the grace period: its leases stay held until it settles. ` +
        "To release them under it, call close({ force: true }).",
    );
  }

  #begin(): void {
    this.#begun = true;
    this.#engine.shut();
    // However long the work takes, whether or not a call still waits for it: the rest is closed behind it.
    void this.#running.settled(this.#engine.clock, Infinity).then(() => this.#end().catch(() => {}));
  }

  #end(): Promise<void> {
    return (this.#ended ??= end(this.#engine));
  }
}

/** Ends every hold, used or not, and waits until nothing of ours is left in the store. After a bounded time it reports what may be left. */
async function end(engine: Engine): Promise<void> {
  const { clock, releases } = engine;
  engine.releaseAll();
  await releases.settled(STORE_MAX_MS);
  const left = [...new Set(releases.claims.map(({ name }) => name))];
  await within(clock, engine.stop(), STORE_MAX_MS);
  const failure = await closeBackend(engine);
  if (left.length > 0) throw leftovers(engine.backend.name, left, failure);
  if (failure !== undefined) throw failure as Error;
}

async function closeBackend({ backend, clock }: Engine): Promise<unknown> {
  try {
    const closed = asked(() => backend.close()).then(() => true as const);
    if (await withinAwake(clock, closed, STORE_MAX_MS)) return undefined;
    return new LockBackendError(backend.name, "", `The ${backend.name} backend did not close in time.`);
  } catch (error) {
    return asBackendError(backend.name, "", error);
  }
}

function leftovers(backend: string, names: readonly string[], cause: unknown): LockBackendError {
  const shown = names.slice(0, 5).map(quote).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");
  const message =
    `The locks are closed, but the ${backend} store did not confirm that ${shown} ${names.length === 1 ? "is" : "are"} released: ` +
    "what is left there ends by itself after its ttl.";
  return new LockBackendError(backend, names.join(", "), message, { cause });
}

/** Work that fails keeps its own error. A loss meanwhile is named as its cause, where it has none. */
export function attachLoss(error: unknown, lost: LockLostError | undefined): void {
  if (lost === undefined || !isA(Error, error) || isA(LockLostError, error)) return;
  try {
    if (error.cause === undefined) error.cause = lost;
  } catch {
    // Frozen, or with a getter: it stays as it is.
  }
}
