/** What a conformance check works with: backends that are closed for it, claims, and ways to wait without guessing. */
import assert from "node:assert/strict";
import type { Locks, LocksOptions } from "../core/api.ts";
import type { Backend, Claim, Granted, Refused } from "../contract/backend.ts";
import { systemChance } from "../contract/random.ts";
import { type Clock, systemClock } from "../contract/clock.ts";
import { createLocks } from "../core/locks.ts";
import { granted } from "./attempts.ts";
import { newClaim } from "./claim.ts";
import { eventually } from "./eventually.ts";
import { LeftoverError, Leftovers } from "./leftovers.ts";

/** What the author of a backend gives to the suite. */
export interface ConformanceContext {
  /** Opens the backend anew on the same store, as another process would. The suite closes it. */
  open(): Promise<Backend> | Backend;
  /**
   * Ends a backend as a crash of its process would, so that nothing is released. The suite closes it all the same.
   * @default backend.close(), which leaves or ends the claims, but releases no other claims
   */
  crash?(backend: Backend): Promise<void>;
  /** A ttl that the store keeps to the millisecond or nearly so. The shorter, the faster the suite. @default 500 */
  readonly ttlMs?: number | undefined;
  /** The longest ttl that the store can keep twice over, for a machine that is too busy for `ttlMs`. @default no limit */
  readonly ttlMaxMs?: number | undefined;
  /** How much earlier than asked the store may let go because its clock ticks coarsely. @default 5 % of `ttlMs` */
  readonly slackMs?: number | undefined;
  /** How long to wait for what must happen in the end, before the check fails. @default 15_000 */
  readonly patienceMs?: number | undefined;
  /** Why it may not be known which claim holds a lock until its lease is renewed. @default it is known at once */
  readonly lateIds?: string | undefined;
  /** The clock that the backend runs on. @default the system's */
  readonly clock?: Clock | undefined;
  /** Lets time pass. With a fake clock: moves it. @default waits */
  sleep?(ms: number): Promise<void>;
  /**
   * Looks into the store itself, past the backend: what lies there of locks whose names start with `prefix`, and should be gone
   * now that every claim has ended. Asked after each check. @default only query() is asked
   */
  left?(prefix: string): Promise<readonly string[]> | readonly string[];
}

/** The machine was too busy to check anything: not the backend's fault. The check starts again with a longer ttl. */
export class TooSlowError extends Error {
  override readonly name = "TooSlowError";
}

/** One check at work. */
export class Trial {
  readonly context: ConformanceContext;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly slackMs: number;
  readonly patienceMs: number;
  /** This check's own lock; also a prefix for more. */
  readonly name: string;
  readonly #backends: Backend[] = [];
  readonly #locks: Locks[] = [];
  readonly #claims: Claim[] = [];
  readonly #crashed = new Set<Backend>();
  readonly #before: Leftovers;

  /** `stretch` makes every ttl that much longer, as far as the store can. */
  constructor(context: ConformanceContext, stretch = 1) {
    this.context = context;
    this.clock = context.clock ?? systemClock;
    this.ttlMs = Math.min((context.ttlMs ?? 500) * stretch, context.ttlMaxMs ?? Infinity);
    this.slackMs = context.slackMs ?? this.ttlMs * 0.05;
    // What ends with a ttl that was stretched ends later, too.
    this.patienceMs = Math.max(context.patienceMs ?? 15_000, 4 * this.ttlMs);
    this.name = `conformance:${systemChance.id()}`;
    // Other checks may run in this process, and set timers of its clock: only a fake one is this check's own.
    this.#before = new Leftovers({ clock: context.sleep === undefined ? undefined : context.clock, process: false });
  }

  async open(): Promise<Backend> {
    const backend = await this.context.open();
    this.#backends.push(backend);
    return backend;
  }

  /** Locks on a backend of their own, as another process would have. */
  async locks(options: LocksOptions = {}): Promise<Locks> {
    const locks = createLocks(await this.context.open(), { clock: this.clock, ttl: this.#longMs, ...options });
    this.#locks.push(locks);
    return locks;
  }

  async crash(backend: Backend): Promise<void> {
    this.#crashed.add(backend);
    if (this.context.crash === undefined) await backend.close();
    else await this.context.crash(backend);
  }

  async close(): Promise<void> {
    const opened = [...this.#locks, ...this.#backends];
    await this.within("all is closed", Promise.all(opened.map((one) => one.close())));
  }

  /** Ends every claim of this check, as far as it can. */
  async endClaims(): Promise<void> {
    await Promise.allSettled(this.#locks.map((locks) => locks.close()));
    await this.#forgetOutcomes();
    const left = await this.#left().catch(() => [""]);
    if (left.length === 0) return;
    // A claim may be known only to the process that made it.
    const releases = this.#alive.flatMap((backend) => this.#claims.map((claim) => backend.release(claim)));
    await Promise.allSettled(releases);
  }

  /** What they keep for later would count as left behind. */
  async #forgetOutcomes(): Promise<void> {
    const [backend] = this.#alive;
    if (backend?.forget === undefined) return;
    for (const name of new Set(this.#claims.map((claim) => claim.name))) {
      const { outcome } = await backend.inspect(name);
      if (outcome !== undefined) await backend.forget(name, outcome.fence);
    }
  }

  /** Judges what is still there: in the store, and on this check's own clock. Closes everything. */
  async nothingIsLeft(): Promise<void> {
    await this.#nothingAtLast(() => this.#left());
    await this.close();
    await this.#nothingAtLast(async () => [...((await this.context.left?.(this.name)) ?? []), ...this.#before.look()]);
  }

  get #alive(): readonly Backend[] {
    return this.#backends.filter((backend) => !this.#crashed.has(backend));
  }

  async #left(): Promise<readonly string[]> {
    const [observer = await this.open()] = this.#alive;
    const { held, pending } = await observer.query(this.name);
    return [
      ...held.map(({ name, fence }) => `a lease of ${JSON.stringify(name)}, fence ${fence}`),
      ...pending.map(({ name, position }) => `a claim that waits for ${JSON.stringify(name)} at place ${position}`),
    ];
  }

  /** What died ends with its ttl. */
  async #nothingAtLast(look: () => Promise<readonly string[]>): Promise<void> {
    const deadlineMs = this.clock.now() + this.patienceMs;
    for (let left = await look(); left.length > 0; left = await look()) {
      if (this.clock.now() >= deadlineMs) throw new LeftoverError(left);
      await this.sleep(Math.max(1, this.ttlMs / 10));
    }
  }

  /** Longer than our patience: nothing may seem to work only because it expired. */
  get #longMs(): number {
    return Math.max(2 * this.patienceMs, this.ttlMs);
  }

  /** A new claim on the check's own lock. */
  claim(change: Partial<Claim> = {}): Claim {
    const claim = newClaim({ name: this.name, ttlMs: this.#longMs, holder: "conformance:1", ...change });
    this.#claims.push(claim);
    return claim;
  }

  /** A claim whose lease ends soon unless renewed. */
  brief(change: Partial<Claim> = {}): Claim {
    return this.claim({ ttlMs: this.ttlMs, ...change });
  }

  async sleep(ms: number): Promise<void> {
    if (ms <= 0) return;
    if (this.context.sleep !== undefined) return this.context.sleep(ms);
    await new Promise((resolve) => setTimeout(resolve, ms));
  }

  /**
   * Throws {@link TooSlowError} if more than this share of a brief ttl has passed, because this process or the store was kept
   * waiting: a lease of that age may have ended.
   */
  inTime(sinceMs: number, share = 0.9): void {
    const ageMs = this.clock.now() - sinceMs;
    if (ageMs > this.ttlMs * share) throw new TooSlowError(`${Math.round(ageMs)} ms passed where less was meant to`);
  }

  /** Attempts, and expects the lease. `sentMs` is the clock before the request left. */
  async granted(backend: Backend, claim: Claim): Promise<Granted & { readonly sentMs: number }> {
    const sentMs = this.clock.now();
    const answer = await granted(backend, claim);
    return { ...answer, sentMs };
  }

  /** Attempts, and expects a refusal. `sinceMs`: when the brief lease that is in the way began. */
  async refused(backend: Backend, claim: Claim, why: string, sinceMs?: number): Promise<Refused> {
    const answer = await backend.attempt(claim);
    if (answer.granted && sinceMs !== undefined) this.inTime(sinceMs);
    if (answer.granted) assert.fail(`granted fence ${answer.fence}, but ${why}`);
    return answer;
  }

  /** Asserts that what the store shows as the id of this claim's lease is it: a wrong one never is, and none only if it may come late. */
  isIdOf(claim: Claim, id: string | undefined): void {
    if (id !== undefined || this.context.lateIds === undefined) assert.equal(id, claim.id, "which claim holds it");
  }

  /** Attempts until granted: the way that needs no message. */
  async grantedAtLast(backend: Backend, claim: Claim): Promise<Granted & { readonly sentMs: number }> {
    return this.eventually("the lease is granted", async () => {
      const sentMs = this.clock.now();
      const answer = await backend.attempt(claim);
      return answer.granted ? { ...answer, sentMs } : undefined;
    });
  }

  /** Looks until there is something to see. */
  eventually<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
    const sleep = (ms: number): Promise<void> => this.sleep(ms);
    const { clock, patienceMs } = this;
    return eventually(what, look, { clock, patienceMs, sleep, paceMs: Math.max(1, this.ttlMs / 25) });
  }

  /** Waits for a promise, but not for ever. */
  async within<T>(what: string, promise: Promise<T>): Promise<T> {
    let settled: { readonly value: T } | { readonly error: unknown } | undefined;
    promise.then(
      (value) => (settled = { value }),
      (error: unknown) => (settled = { error }),
    );
    const end = await this.eventually(what, () => settled);
    if ("error" in end) throw end.error;
    return end.value;
  }

  /** Asks to the end of a lease's trust whether a rival gets in too early. */
  async keptUntil(untilMs: number, backend: Backend, rival: () => Claim): Promise<void> {
    while (this.clock.now() < untilMs - this.slackMs - this.ttlMs / 10) {
      const claim = rival();
      const answer = await backend.attempt(claim);
      const doneMs = this.clock.now();
      if (answer.granted) {
        if (doneMs < untilMs - this.slackMs) {
          assert.fail(`a rival got in ${Math.round(untilMs - doneMs)} ms before the lease's time was over`);
        }
        // It was kept waiting until the lease was over: nothing is left to check, and its lease is not needed.
        await backend.release(claim);
        return;
      }
      await this.sleep(this.ttlMs / 10);
    }
  }

  /** Expects that no claim of this check is left in the store. */
  async nothingLeft(backend: Backend, prefix: string = this.name): Promise<void> {
    const { held, pending } = await backend.query(prefix);
    assert.deepEqual(held, [], "no lease is left");
    assert.deepEqual(pending, [], "no waiting claim is left");
  }
}
