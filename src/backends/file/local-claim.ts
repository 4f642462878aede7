/** The claims of this process that the store knows, by id. */
import type { Claim, Granted } from "../../contract/backend.ts";
import { type Clock, machineMs } from "../../contract/clock.ts";
import type { Announce, Next } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { Holder, LeaseFacts, LockState } from "./records.ts";
import { isFree, isPlain, runFor } from "./admission.ts";

const SWEEP_FROM = 1000;
/** A claim whose time is over before it holds, this often in a row, asks for less time than taking a lock takes. */
export const ABANDONED_MAX = 4;

/** A claim of this process, on its way through the store. */
export interface LocalClaim {
  readonly claim: Claim;
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
    return this.#known.get(claim.id) ?? this.#add(claim, undefined, undefined);
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
    };
    this.#known.set(claim.id, local);
    return local;
  }
}

export function holderIn(state: LockState, { file }: LocalClaim): Holder | undefined {
  return file && state.holders.find(({ facts }) => facts.id === file.facts.id);
}

export function grantedTo({ held, fromMs }: LocalClaim): Granted {
  const { fence, run } = held!;
  return { granted: true, fence: BigInt(fence), run, fromMs };
}

/** The entry that adds a holder: its lease file where that says all, else the whole state. */
export function withHolder(
  state: LockState,
  { facts, path }: LeaseFile,
  { id: claim }: Claim,
  clock: Clock,
  announce?: Announce,
): Next {
  if (isFree(state) && isPlain(facts)) return { facts, source: path, announce };
  const [sinceMs, sinceWallMs] = [machineMs(clock), clock.wall()];
  return {
    state: (fence, stride) => {
      const holder: Holder = { facts, fence, run: runFor(facts, stride), sinceMs, sinceWallMs, claim };
      announce?.(fence, holder.run);
      return { ...state, holders: [...state.holders, holder], forced: [] };
    },
  };
}
