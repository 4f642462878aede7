/** The claims of this process that the store knows, by id. */
import type { Claim, Granted } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Announce, Next } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { Holder, LeaseFacts, LockState } from "./records.ts";
import { isEmpty, isPlain, runFor } from "./admission.ts";

const SWEEP_FROM = 1000;
/** A claim whose time is over before it holds, this often in a row, asks for less time than taking a lock takes. */
export const ABANDONED_MAX = 4;

/** The note of a claim of this process, as it was last written. */
export interface WrittenNote {
  readonly path: string;
  readonly text: string;
  /** Of the lease. Absent: it was written while the claim waited. */
  readonly fence: number | undefined;
  /** The locks that are held by those who wait. */
  readonly holds: string;
  readonly atMs: number;
}

/** A claim of this process, on its way through the store. */
export interface LocalClaim {
  /** As it was last asked about: its ttl may change. */
  claim: Claim;
  /** Absent until the claim holds or waits. */
  file: LeaseFile | undefined;
  /** When it first queued. It stays when an expired ticket is made again. */
  arrivalUs: number | undefined;
  ticket: string | undefined;
  /** The lease, while it holds. */
  held: Holder | undefined;
  /** Trust counts from here, by the core's clock. */
  fromMs: number;
  /** Until then, by the machine's clock, waiters are not checked for: there were none when it took the lock. */
  aloneUntilMs: number;
  /** How often its lease file turned out to be useless, since it last began to ask. */
  abandoned: number;
  /** True: another claim waited for it when the lock was last looked at. */
  wanted: boolean;
  /** Who handed it the lock said whether others wait for that. Absent: it was not said. */
  others: boolean | undefined;
  /** What it says of itself beside its lease file. */
  note: WrittenNote | undefined;
  /** How often in a row the processes ahead of it could not be reached. */
  misses: number;
}

export class LocalClaims {
  readonly #clock: Clock;
  readonly #adopt: (facts: LeaseFacts) => LeaseFile | undefined;
  readonly #known = new Map<string, LocalClaim>();

  /** `adopt`: finds the lease file that another thread or process made. */
  constructor(clock: Clock, adopt: (facts: LeaseFacts) => LeaseFile | undefined) {
    this.#clock = clock;
    this.#adopt = adopt;
  }

  known(id: string): LocalClaim | undefined {
    return this.#known.get(id);
  }

  get count(): number {
    return this.#known.size;
  }

  all(): Iterable<LocalClaim> {
    return this.#known.values();
  }

  /** True while the claim holds its lock and its time is not over. */
  holds({ held, file }: LocalClaim): boolean {
    return held !== undefined && file !== undefined && machineMs(this.#clock) < file.untilMs;
  }

  of(claim: Claim): LocalClaim {
    const known = this.#known.get(claim.id);
    if (known === undefined) return this.#add(claim, undefined, undefined);
    known.claim = claim;
    return known;
  }

  /** A claim that another thread or process holds, under its own id. */
  adopt(claim: Claim, held: Holder | undefined): LocalClaim | undefined {
    const file = held && this.#adopt(held.facts);
    return file && this.#add(claim, file, held);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }

  clear(): void {
    this.#known.clear();
  }

  /** Forgets leases that expired and were not asked about since. */
  #sweep(): void {
    const nowMs = machineMs(this.#clock);
    for (const [id, { claim, file, ticket }] of this.#known) {
      const over = file === undefined || file.untilMs + claim.lockDelayMs < nowMs;
      if (over && ticket === undefined) this.#known.delete(id);
    }
  }

  #add(claim: Claim, file: LeaseFile | undefined, held: Holder | undefined): LocalClaim {
    if (this.#known.size >= SWEEP_FROM && this.#known.size % SWEEP_FROM === 0) this.#sweep();
    const local: LocalClaim = {
      claim,
      file,
      arrivalUs: undefined,
      ticket: undefined,
      held,
      fromMs: 0,
      aloneUntilMs: 0,
      abandoned: 0,
      misses: 0,
      wanted: false,
      others: undefined,
      note: undefined,
    };
    this.#known.set(claim.id, local);
    return local;
  }
}

export function holderIn(state: LockState, { file }: LocalClaim): Holder | undefined {
  return file && state.holders.find(({ facts }) => facts.id === file.facts.id);
}

export function grantedTo({ held, fromMs, wanted, file }: LocalClaim): Granted {
  const { fence, run } = held!;
  // No process is there to hear that a lease which outlives its own is wanted.
  const mayLinger = file?.facts.process.pid !== 0;
  const granted = { granted: true, fence: BigInt(fence), run, fromMs, mayLinger } as const;
  return wanted ? { ...granted, wanted } : granted;
}

/** The entry that adds a holder: its lease file where that says all, else the whole state. */
export function withHolder(
  state: LockState,
  { facts, path }: LeaseFile,
  { id: claim }: Claim,
  clock: Clock,
  announce?: Announce,
): Next {
  if (isEmpty(state) && state.forced.length === 0 && isPlain(facts)) return { facts, source: path, announce };
  const [sinceMs, sinceWallMs] = [machineMs(clock), clock.wall()];
  return {
    state: (fence, stride) => {
      const holder: Holder = { facts, fence, run: runFor(facts, stride), sinceMs, sinceWallMs, claim };
      announce?.(fence, holder.run);
      return { ...state, holders: [...state.holders, holder] };
    },
  };
}
