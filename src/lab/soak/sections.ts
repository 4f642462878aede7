/** The soak's loops in a client process: section after section, each reported to the lab as it happens. */
import { setTimeout as sleep } from "node:timers/promises";
import { seeded } from "../../testing/seeded-random.ts";
import type { SeededChance } from "../../testing/seeded-random.ts";
import type { ReleaseResult } from "../../core/api.ts";
import type { FromClient, SectionPlan } from "../clients/orders.ts";
import type { LockLibrary, Hold } from "../libraries/library.ts";
import { machineMs } from "../../contract/machine-clock.ts";

const TRUST_LOOK_MS = 10;

interface OpenHold {
  readonly hold: Hold;
  readonly fence: bigint;
  untilMs: number;
}

export class Sections {
  readonly #contender: LockLibrary;
  readonly #client: string;
  readonly #plan: SectionPlan;
  readonly #send: (message: FromClient) => void;
  /** By line of work. */
  readonly #open = new Map<string, OpenHold & { readonly lock: string }>();
  #stopped = false;
  #done = 0;
  #ended: Promise<number> = Promise.resolve(0);

  constructor(contender: LockLibrary, client: string, plan: SectionPlan, send: (message: FromClient) => void) {
    this.#contender = contender;
    this.#client = client;
    this.#plan = plan;
    this.#send = send;
  }

  /** Resolves to the number of sections done, after stop(). */
  run(): Promise<number> {
    this.#ended = this.#run();
    return this.#ended;
  }

  /** Resolves when the sections under way are done. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#ended;
  }

  async #run(): Promise<number> {
    const look = setInterval(() => this.#lookAtTrust(), TRUST_LOOK_MS);
    const loops = Array.from({ length: this.#plan.loops }, (_, i) =>
      this.#loop(`${this.#client}/${i + 1}`, seeded(this.#plan.seed + i)),
    );
    await Promise.all(loops);
    clearInterval(look);
    return this.#done;
  }

  async #loop(who: string, chance: SeededChance): Promise<void> {
    while (!this.#stopped) {
      await this.#section(who, chance);
      await sleep(chance.between(0, 20));
    }
  }

  async #section(who: string, chance: SeededChance): Promise<void> {
    const { epochMs, locks, ttlMs } = this.#plan;
    const lock = `soak:${Math.floor(machineMs() / epochMs)}:${Math.floor(chance.between(0, locks))}`;
    const waitMs = chance.happens(0.2) ? 0 : Math.round(chance.between(50, 2 * ttlMs));
    this.#send({ type: "claimant", event: { kind: "asked", who, lock, atMs: machineMs() } });
    // An error means: not acquired, and nothing is left behind. The oracles see to that.
    const hold = await this.#contender.acquire(lock, { ttlMs, waitMs }).catch(() => undefined);
    if (hold?.fence === undefined) {
      this.#send({ type: "claimant", event: { kind: "refused", who, lock, atMs: machineMs() } });
      return;
    }
    await this.#work(who, lock, hold, hold.fence, chance);
  }

  async #work(who: string, lock: string, hold: Hold, fence: bigint, chance: SeededChance): Promise<void> {
    const untilMs = hold.trustedUntilMs();
    this.#send({
      type: "claimant",
      event: { kind: "held", who, lock, fence, trustedUntilMs: untilMs, atMs: machineMs() },
    });
    this.#open.set(who, { hold, fence, untilMs, lock });
    hold.onLost(() => {
      if (this.#open.get(who)?.hold !== hold) return;
      this.#open.delete(who);
      this.#send({ type: "claimant", event: { kind: "lost", who, lock, fence, atMs: machineMs() } });
    });
    await this.#dwell(chance);
    // Whether still held or not: that is what the guard is for.
    this.#send({ type: "write", who, lock, fence });
    if (this.#open.delete(who)) {
      this.#send({ type: "claimant", event: { kind: "releasing", who, lock, fence, atMs: machineMs() } });
    }
    const result = await hold.release().catch(() => "unknown");
    this.#done++;
    this.#send({
      type: "claimant",
      event: { kind: "released", who, lock, fence, result: result as ReleaseResult, atMs: machineMs() },
    });
  }

  /** Mostly short; now and then so long that only renewals keep the lock; now and then without an event loop. */
  async #dwell(chance: SeededChance): Promise<void> {
    const { ttlMs } = this.#plan;
    if (chance.happens(0.04)) await sleep(chance.between(ttlMs / 2, 1.5 * ttlMs));
    else if (chance.happens(0.02)) block(chance.between(ttlMs / 10, ttlMs / 2));
    else await sleep(chance.between(0, 25));
  }

  #lookAtTrust(): void {
    for (const [who, open] of this.#open) {
      const untilMs = open.hold.trustedUntilMs();
      if (untilMs <= machineMs() || untilMs - open.untilMs < 2) continue;
      open.untilMs = untilMs;
      const { lock, fence } = open;
      this.#send({
        type: "claimant",
        event: { kind: "trusted", who, lock, fence, trustedUntilMs: untilMs, atMs: machineMs() },
      });
    }
  }
}

function block(ms: number): void {
  const untilMs = machineMs() + ms;
  while (machineMs() < untilMs);
}
