/** A simulated client of a quorum: it acquires one lock repeatedly, and trusts exactly what the rules of time allow. */
import type { Backend, Claim, Granted } from "../../../src/contract/backend.ts";
import type { Clock } from "../../../src/contract/clock.ts";
import { newClaim } from "./servers.ts";
import type { World } from "./simulated-world.ts";

/** One lease as its holder saw it. It was believed in from `fromMs` until `untilMs`. */
export interface Believed {
  readonly client: number;
  readonly fence: bigint;
  readonly askedMs: number;
  readonly fromMs: number;
  untilMs: number;
}

export interface ClientPlan {
  readonly ttlMs: number;
  /** The longest time for which it wants the lock. */
  readonly holdMs: number;
  /** Leases after which it stops. @default never */
  readonly leases?: number;
  /** True: it wants the lock for all of `holdMs`, and not for a random part of it. */
  readonly holdsAll?: boolean;
}

export class Client {
  readonly history: Believed[];
  finished = false;
  readonly #world: World;
  readonly #at: number;
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #plan: ClientPlan;

  constructor(world: World, at: number, backend: Backend, clock: Clock, plan: ClientPlan, history: Believed[]) {
    this.#world = world;
    this.#at = at;
    this.#backend = backend;
    this.#clock = clock;
    this.#plan = plan;
    this.history = history;
  }

  async run(untilMs: number): Promise<void> {
    for (let leases = 0; this.#clock.now() < untilMs && leases < (this.#plan.leases ?? Infinity); leases++) {
      const claim = this.#claim();
      const believed = await this.#acquire(claim, untilMs);
      if (believed !== undefined) await this.#hold(claim, believed);
      await this.#backend.release(claim).catch(() => false);
      await this.#world.sleep(this.#at, this.#world.dice.between(0, 20));
    }
    this.finished = true;
  }

  async #acquire(claim: Claim, untilMs: number): Promise<Believed | undefined> {
    while (this.#clock.now() < untilMs) {
      const askedMs = this.#clock.now();
      const answer = await this.#backend.attempt(claim).catch(() => undefined);
      if (answer?.granted === true) return this.#believe(answer, askedMs);
      const over = new AbortController();
      this.#world.at(answer?.retryMs ?? this.#world.dice.between(10, 60), () => over.abort(), this.#at);
      await this.#backend.watch?.(claim, over.signal);
    }
    return undefined;
  }

  #believe({ fence, fromMs }: Granted, askedMs: number): Believed | undefined {
    const nowMs = this.#clock.now();
    const untilMs = this.#trustMs(fromMs ?? askedMs);
    if (nowMs >= untilMs) return undefined;
    const believed: Believed = { client: this.#at, fence, askedMs, fromMs: nowMs, untilMs };
    this.history.push(believed);
    return believed;
  }

  async #hold(claim: Claim, believed: Believed): Promise<void> {
    const { holdMs, holdsAll } = this.#plan;
    const endMs = this.#clock.now() + (holdsAll === true ? holdMs : this.#world.dice.between(0, holdMs));
    for (;;) {
      await this.#world.sleep(this.#at, Math.min(this.#plan.ttlMs / 3, Math.max(0, endMs - this.#clock.now())));
      const nowMs = this.#clock.now();
      if (nowMs >= believed.untilMs) return;
      if (nowMs >= endMs) break;
      const [renewal] = await this.#backend.renew([claim]).catch(() => []);
      const answeredMs = this.#clock.now();
      if (answeredMs >= believed.untilMs) return;
      if (renewal?.held === false) {
        believed.untilMs = answeredMs;
        return;
      }
      if (renewal?.held === true) {
        believed.untilMs = Math.max(believed.untilMs, this.#trustMs(renewal.fromMs ?? nowMs));
      }
    }
    // It stops trusting before it releases.
    believed.untilMs = Math.min(believed.untilMs, this.#clock.now());
  }

  #trustMs(fromMs: number): number {
    return fromMs + this.#plan.ttlMs * 0.99 - 2;
  }

  #claim(): Claim {
    const { ttlMs } = this.#plan;
    return newClaim({ id: this.#world.dice.id(), name: "lock", ttlMs, holder: `client-${this.#at}`, queues: true });
  }
}

/** Two leases believed in at once, as `[earlier, later]`. */
export function overlaps(history: readonly Believed[]): readonly (readonly [Believed, Believed])[] {
  const sorted = history.toSorted((a, b) => a.fromMs - b.fromMs);
  const found: [Believed, Believed][] = [];
  let longest: Believed | undefined;
  for (const lease of sorted) {
    if (longest !== undefined && longest.untilMs > lease.fromMs) found.push([longest, lease]);
    if (longest === undefined || lease.untilMs > longest.untilMs) longest = lease;
  }
  return found;
}

/** Fences granted twice, or not above the fence of a lease from before this one was requested. */
export function wrongFences(history: readonly Believed[]): readonly string[] {
  const wrong: string[] = [];
  const seen = new Set<bigint>();
  for (const { fence } of history) {
    if (seen.has(fence)) wrong.push(`fence ${fence} twice`);
    seen.add(fence);
  }
  for (const later of history) {
    const greater = history.find(({ fromMs, fence }) => fromMs < later.askedMs && fence >= later.fence);
    if (greater !== undefined && greater !== later) wrong.push(`fence ${later.fence} after ${greater.fence}`);
  }
  return wrong;
}
