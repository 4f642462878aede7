/** What the locks of this process do, from their events, while someone watches: exact, and also of what is too short to be seen in the store. */
import { holdOutcome } from "../telemetry/outcome.ts";
import { Guard, listen } from "../telemetry/telemetry.ts";
import type { Locks } from "../core/api.ts";
import { LastValues, Rate } from "./percentiles.ts";
import type { Timeline } from "./timeline.ts";
import type { ContendedView, Figures } from "./wire.ts";

const RATE_MS = 10_000;
const CONTENDED_MAX = 10;
/** How often the profile is read: it sorts all of its locks. */
const PROFILE_MS = 5000;

export class OwnEvents {
  readonly #locks: Pick<Locks, "contention">;
  readonly #timeline: Timeline;
  readonly #now: () => number;
  readonly #guard: Guard = new Guard("holdfast/console");
  readonly #acquires: Rate = new Rate(RATE_MS);
  readonly #wait: LastValues = new LastValues();
  readonly #hold: LastValues = new LastValues();
  #acquired = 0;
  #lost = 0;
  #late = 0;
  #contended: readonly ContendedView[] = [];
  #readMs = -Infinity;
  #sinceMs = 0;
  #end: (() => void) | undefined;
  /** Of which backend the locks are. Others of this process are others' matter. */
  backend: string | undefined;

  constructor(locks: Pick<Locks, "contention">, timeline: Timeline, now: () => number) {
    this.#locks = locks;
    this.#timeline = timeline;
    this.#now = now;
  }

  start(): void {
    this.#sinceMs = this.#now();
    const isMeant = ({ backend }: { readonly backend: string }): boolean => backend === this.backend;
    this.#end ??= listen(
      {
        acquireEnd: (event) => {
          if (!isMeant(event) || event.outcome !== "acquired") return;
          this.#acquired++;
          this.#acquires.add(this.#now(), 1);
          if (event.contended === true) this.#wait.add(event.waitedMs ?? 0);
        },
        holdEnd: (event) => {
          if (!isMeant(event)) return;
          this.#hold.add(event.heldMs ?? 0);
          // One whose release had no answer was given back all the same.
          const end = holdOutcome(event) === "lost" ? "lost" : "over";
          this.#timeline.ownHold(event.name, String(event.fence), event.mode, event.heldMs ?? 0, end, this.#now());
        },
        lost: (event) => {
          if (isMeant(event)) this.#lost++;
        },
        renew: (event) => {
          // Due after a third of the ttl: as late again, and half of its time is left at most.
          if (isMeant(event) && event.delayMs > event.ttlMs / 6) this.#late++;
        },
      },
      this.#guard,
    );
  }

  stop(): void {
    this.#end?.();
    this.#end = undefined;
  }

  /** Absent: these locks have not been used here. */
  async figures(): Promise<Figures | undefined> {
    const nowMs = this.#now();
    if (nowMs - this.#readMs >= PROFILE_MS) {
      this.#readMs = nowMs;
      this.#contended = await this.#readProfile();
    }
    if (this.#acquired === 0 && this.#contended.length === 0) return undefined;
    return {
      acquiresPerSecond: this.#acquires.perSecond(nowMs, this.#sinceMs),
      wait: this.#wait.show(),
      hold: this.#hold.show(),
      lost: this.#lost,
      renewalsLate: this.#late,
      contended: this.#contended,
    };
  }

  async #readProfile(): Promise<readonly ContendedView[]> {
    // Locks that are closed have none.
    const { locks } = await this.#locks.contention().catch(() => ({ locks: [] }));
    return locks
      .filter(({ waitMs }) => waitMs > 0)
      .slice(0, CONTENDED_MAX)
      .map(({ name, waiting, waitMs, holders }) => ({ name, waiting, waitMs, holders: holders.slice(0, 3) }));
  }
}
