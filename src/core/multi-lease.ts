/** A lease over several locks: all or nothing. It is held while all of its parts are. */
import type { GroupLease, ReleaseResult } from "./api.ts";
import type { Duration } from "../contract/duration.ts";
import type { LockLostError } from "../contract/errors.ts";
import { ContextAbort } from "./context.ts";
import { fenceOf } from "./fence-of.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { Peekable, Peeked } from "./peek.ts";

export class MultiLease implements GroupLease, Peekable {
  readonly name: string;
  readonly fences: ReadonlyMap<string, bigint>;
  /** @internal In the order they were taken. */
  readonly parts: readonly HeldLease[];
  #signal: AbortSignal | undefined;
  #wanted: AbortSignal | undefined;
  #disposed = false;
  #result: Promise<ReleaseResult> | undefined;

  /** @internal */
  constructor(parts: readonly HeldLease[]) {
    this.parts = parts;
    this.name = parts.map((part) => part.name).join(", ");
    this.fences = new Map(parts.map((part) => [part.name, part.fence]));
  }

  /** Several locks have several fences: each guard wants its own. */
  get fence(): bigint {
    throw new TypeError(`A lease over several locks has no single fence: use \`fenceOf(name)\` (${this.name})`);
  }

  get signal(): AbortSignal {
    return (this.#signal ??= firstOf(this.parts.map(({ signal }) => signal)));
  }

  get wanted(): AbortSignal {
    return (this.#wanted ??= firstOf(this.parts.map(({ wanted }) => wanted)));
  }

  remaining(): number {
    return Math.min(...this.parts.map((part) => part.remaining()));
  }

  async extend(ttl?: Duration): Promise<number> {
    await Promise.all(this.parts.map((part) => part.extend(ttl)));
    this.assertHeld();
    return this.remaining();
  }

  fenceOf(name: string): bigint {
    return fenceOf(this, name);
  }

  assertHeld(): void {
    for (const part of this.parts) part.assertHeld();
  }

  release(): Promise<ReleaseResult> {
    return (this.#result ??= this.#release());
  }

  toJSON(): unknown {
    const fences = Object.fromEntries(Array.from(this.fences, ([name, fence]) => [name, String(fence)]));
    return { name: this.name, fences };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The answer to an explicit release() has said it already, or another disposal does.
    if (this.#result !== undefined || this.#disposed) return void (await this.release());
    this.#disposed = true;
    const lost = await this.finish();
    if (lost !== undefined) throw lost;
  }

  /** @internal As {@link HeldLease.finish}: all parts are judged at the same instant. */
  async finish(): Promise<LockLostError | undefined> {
    const losses = await Promise.all(this.parts.toReversed().map((part) => part.finish()));
    this.#result ??= this.#release();
    return losses.find((lost) => lost !== undefined);
  }

  /** @internal */
  peek(): readonly Peeked[] {
    return this.parts.flatMap((part) => part.peek());
  }

  async #release(): Promise<ReleaseResult> {
    const results = await Promise.all(this.parts.toReversed().map((part) => part.release()));
    if (results.includes("lost")) return "lost";
    return results.includes("unknown") ? "unknown" : "released";
  }
}

/** Not AbortSignal.any(): as long as there is a listener, Node keeps what that returns for ever, and all that the listener knows. */
function firstOf(signals: readonly AbortSignal[]): AbortSignal {
  const controller = new ContextAbort();
  for (const signal of signals) onAbort(signal, (reason) => controller.abort(reason));
  return controller.signal;
}
