/**
 * The clean layout: each Lock is a lease of the user's `Locks`, in the store that those have. It waits in that store's queue for as long as
 * redlock would try. A lease belongs to the process that has it: a Lock that was made from a value alone is not found here.
 */
import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { ArgumentError, got, isArgumentError } from "../../contract/argument-error.ts";
import { LockLostError, LockTimeoutError } from "../../contract/errors.ts";
import type { GroupLease, Locks } from "../../core/api.ts";
import { withoutReentry } from "../../core/inside.ts";
import type { AnyClient } from "../rolling/run-script.ts";
import type { ExecutionResult, ExecutionStats, Grant, Held, Place, Settings, Timed } from "./api.ts";
import { appliedTo, type ExecutionError, noQuorum } from "./errors.ts";

export class Clean implements Place {
  readonly #locks: Locks;
  readonly #clients: ReadonlySet<AnyClient>;
  readonly #report: (error: Error) => void;
  /** By the values of their locks. */
  readonly #leases: Map<string, GroupLease> = new Map();

  constructor(locks: Locks, clients: ReadonlySet<AnyClient>, report: (error: Error) => void) {
    if (typeof locks?.acquire !== "function") {
      throw new ArgumentError(`Expected \`locks\` to be what createLocks() or connect() gives, got ${got(locks)}`);
    }
    this.#locks = locks;
    this.#clients = clients;
    this.#report = report;
  }

  async take(resources: readonly string[], durationMs: number, settings: Settings): Promise<Grant> {
    const names = [...new Set(resources)];
    const value = randomBytes(16).toString("hex");
    const options = { ttl: durationMs, wait: waitMs(settings), renew: false } as const;
    const take = (): Promise<GroupLease> =>
      this.#locks.acquire<string | string[]>(names.length === 1 ? String(names[0]) : names, options);
    const lease = await this.#withoutReentry(names, take).catch((error: unknown) => this.#fail(resources, error));
    this.#leases.set(value, lease);
    const { signal, fences } = lease;
    // A lease that ends without a release is forgotten, too.
    signal.addEventListener("abort", () => this.#leases.delete(value), { once: true });
    return { attempts: [this.#stats()], value, fences, signal, ...timesOf(lease, durationMs) };
  }

  async extend({ resources, value }: Held, durationMs: number): Promise<Timed> {
    const lease = this.#leases.get(value);
    if (lease === undefined) return this.#fail(resources);
    await lease.extend(durationMs).catch((error: unknown) => this.#fail(resources, error));
    return { attempts: [this.#stats()], signal: lease.signal, ...timesOf(lease, durationMs) };
  }

  async release({ resources, value }: Held): Promise<ExecutionResult> {
    const lease = this.#leases.get(value);
    this.#leases.delete(value);
    if ((await lease?.release()) !== "released") this.#fail(resources);
    return { attempts: [this.#stats()] };
  }

  /** As in redlock, also inside a run() of these locks. */
  #withoutReentry<T>([name, ...rest]: readonly string[], take: () => T): T {
    if (name === undefined) return take();
    return withoutReentry(this.#locks, name, () => this.#withoutReentry(rest, take));
  }

  /** A wrong option is not a lock that could not be had. */
  #fail(resources: readonly string[], cause?: unknown): never {
    if (isArgumentError(cause)) throw cause;
    const isBusy = cause === undefined || cause instanceof LockTimeoutError || cause instanceof LockLostError;
    const refusal = isBusy || !(cause instanceof Error) ? appliedTo(0, resources.length) : cause;
    this.#report(refusal);
    const error: ExecutionError = noQuorum([this.#stats(refusal)], isBusy);
    if (cause !== undefined) error.cause = cause;
    throw error;
  }

  /** The store is one: the clients vote as it does. */
  #stats(error?: Error): Promise<ExecutionStats> {
    const clients = [...this.#clients];
    return Promise.resolve({
      membershipSize: clients.length,
      quorumSize: Math.floor(clients.length / 2) + 1,
      votesFor: new Set(error === undefined ? clients : []),
      votesAgainst: new Map(error === undefined ? [] : clients.map((client) => [client, error])),
    });
  }
}

/** From when on its time counts: what the lease has left says when its last question was sent. */
function timesOf(lease: GroupLease, durationMs: number): Pick<Timed, "sentMs" | "fromMs"> {
  const spentMs = Math.max(0, durationMs - lease.remaining());
  return { sentMs: performance.now() - spentMs, fromMs: Math.floor(Date.now() - spentMs) };
}

/** For as long as redlock would go on trying. */
function waitMs({ retryCount, retryDelay }: Settings): number {
  if (retryCount === -1 || retryCount === Infinity) return Infinity;
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(retryCount * retryDelay)));
}
