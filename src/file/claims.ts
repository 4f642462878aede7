/** The claims of this process that the store knows of, by id. */
import type { Claim, Granted } from "../backend.ts";
import type { Next, Told } from "./log.ts";
import type { Moment } from "./moment.ts";
import type { Owner } from "./owner-file.ts";
import type { Owners } from "./owners.ts";
import type { Holder, LockState } from "./records.ts";
import { isFree, isPlain, runFor } from "./rules.ts";

const SWEEP_FROM = 1000;
/** A claim whose time is over before it holds, this often in a row, asks for less time than it takes to take a lock. */
export const ABANDONED_MAX = 4;

/** A claim of this process, on its way through the store. */
export interface Mine {
  readonly claim: Claim;
  /** Absent until the claim holds or waits. */
  owner: Owner | undefined;
  /** When it first queued; kept when a ticket that lapsed is made again. */
  arrivalUs: number | undefined;
  ticket: string | undefined;
  /** The lease, while it holds. */
  held: Holder | undefined;
  /** Trust counts from here, by the core's clock. */
  fromMs: number;
  /** Until when, by the machine's clock, it is not worth a look whether somebody waits: nobody did when it took the lock. */
  aloneUntilMs: number;
  /** How often its owner file turned out to be of no use, since it last began to ask. */
  abandoned: number;
  /** How often in a row those ahead of it could not be reached. */
  misses: number;
}

export class Claims {
  readonly #owners: Owners;
  readonly #moment: Moment;
  readonly #known = new Map<string, Mine>();

  constructor(owners: Owners, moment: Moment) {
    this.#owners = owners;
    this.#moment = moment;
  }

  known(id: string): Mine | undefined {
    return this.#known.get(id);
  }

  get count(): number {
    return this.#known.size;
  }

  all(): Iterable<Mine> {
    return this.#known.values();
  }

  /** True while the claim holds its lock and its time is not over. */
  holds({ held, owner }: Mine): boolean {
    return held !== undefined && owner !== undefined && this.#moment.machineMs() < owner.untilMs;
  }

  of(claim: Claim): Mine {
    return this.#known.get(claim.id) ?? this.#add(claim, undefined, undefined);
  }

  /** A claim that another thread or process holds, under its own id. */
  adopt(claim: Claim, held: Holder | undefined): Mine | undefined {
    const owner = held && this.#owners.adopt(held.owner);
    return owner && this.#add(claim, owner, held);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }

  clear(): void {
    this.#known.clear();
  }

  /** Leases that ended by themselves, and that nobody asked about since. */
  #sweep(): void {
    const nowMs = this.#moment.machineMs();
    for (const [id, { claim, owner, ticket }] of this.#known) {
      const over = owner === undefined || owner.untilMs + claim.lockDelayMs < nowMs;
      if (over && ticket === undefined) this.#known.delete(id);
    }
  }

  #add(claim: Claim, owner: Owner | undefined, held: Holder | undefined): Mine {
    if (this.#known.size >= SWEEP_FROM && this.#known.size % SWEEP_FROM === 0) this.#sweep();
    const mine: Mine = {
      claim,
      owner,
      arrivalUs: undefined,
      ticket: undefined,
      held,
      fromMs: 0,
      aloneUntilMs: 0,
      abandoned: 0,
      misses: 0,
    };
    this.#known.set(claim.id, mine);
    return mine;
  }
}

export function holderIn(state: LockState, { owner }: Mine): Holder | undefined {
  return owner && state.holders.find(({ owner: { id } }) => id === owner.facts.id);
}

export function grantedTo({ held, fromMs }: Mine): Granted {
  const { fence, run } = held!;
  return { granted: true, fence: BigInt(fence), run, fromMs };
}

/** The entry that adds a holder: its own owner file where that says all, else the whole state. */
export function withHolder(state: LockState, { facts, path }: Owner, moment: Moment, told?: Told): Next {
  if (isFree(state) && isPlain(facts)) return { owner: facts, source: path, told };
  const [sinceMs, sinceWallMs] = [moment.machineMs(), moment.wallMs()];
  return {
    state: (fence, stride) => {
      const holder: Holder = { owner: facts, fence, run: runFor(facts, stride), sinceMs, sinceWallMs };
      told?.(fence, holder.run);
      return { ...state, holders: [...state.holders, holder], forced: [] };
    },
  };
}
