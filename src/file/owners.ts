/**
 * Which owner file serves which claim. A claim that the core renews until it is released shares a file with all others that
 * say the same, each on another lock: one utimes() renews them all. Every other claim has a file of its own, because it ends
 * at a time of its own (`renew: false`, `maxHold`), is renewed by somebody else (a thread, another process), waits in a queue,
 * or leaves a place behind that is known by the file's id (`minHold`, `lockDelay`).
 *
 * What shares must still end one by one. A lease is ended by an entry in its lock's log; where that failed, or where nobody
 * asked to renew it for a whole ttl, the others' renewals keep it alive, so that each of them reports it to be ended. A
 * shared file whose time was over while it held anything is never used again: the next claim gets a new one.
 *
 * Making a file costs ten times a link, so that a file whose claims have ended serves the next claim that says the same.
 */
import type { Claim } from "../backend.ts";
import { holderIn, type Mine } from "./claims.ts";
import { disk, remove } from "./disk.ts";
import type { Head } from "./log.ts";
import { type Owner, type OwnerFileOptions, OwnerFiles } from "./owner-file.ts";
import type { Ticket } from "./queue.ts";
import type { OwnerFacts } from "./records.ts";
import { checkTerms, checkWording, holdingIn, isSameFile, isWaitingId, leaseIn } from "./resume.ts";

const IDLE_MAX = 64;
/** A shared file that was renewed this part of its ttl ago, or less, is not renewed for a new claim, which trusts it that much shorter. */
const FRESH = 1 / 100;

export interface OwnersOptions extends OwnerFileOptions {
  /** A lease that nobody renews is still there, because others that share its file are renewed: it is to be ended. */
  lapsed(mine: Mine): void;
}

export class Owners {
  readonly #options: OwnersOptions;
  readonly #files: OwnerFiles;
  /** Files of one claim each, whose claim has ended. By wording; the newest last. */
  readonly #idle = new Map<string, Owner[]>();
  #idleCount = 0;
  /** The files that new claims may share, by wording. */
  readonly #shared = new Map<string, Owner>();
  /** The one of them that was last taken: mostly it is wanted again. */
  #recent: Owner | undefined;
  /** Those of them by which nothing is held, the longest unused first. */
  readonly #unused = new Map<string, Owner>();
  /** True: every file of one claim is named after it, so that another thread or process can find it. */
  #named: boolean;

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#files = new OwnerFiles(options);
    this.#named = options.detached;
  }

  /** True: another process may go on with any claim at any time, so that its file is only removed when it is released, or over. */
  get shareClaims(): boolean {
    return this.#options.detached;
  }

  /** True if the claim holds by this entry, whichever process took it. */
  holds(mine: Mine, head: Head): boolean {
    if (!this.shareClaims) return holderIn(head.state, mine) !== undefined;
    const held = holdingIn(this.#options.place, head, mine.claim.id);
    if (held === undefined) return false;
    checkTerms(mine.claim, held.owner);
    if (mine.owner?.facts.id === held.owner.id) return true;
    const owner = this.#files.adopt(held.owner);
    if (owner === undefined) return false;
    // Another process has it already for the same claim: what we waited by is of no use any more.
    if (mine.owner !== undefined) this.discard(mine.owner, mine);
    mine.owner = owner;
    return true;
  }

  /** Where the claim waits, whichever process queued it; -1: nowhere. */
  placeIn(line: readonly Ticket[], mine: Mine): number {
    if (mine.owner !== undefined) return line.findIndex(({ facts }) => facts.id === mine.owner!.facts.id);
    if (!this.shareClaims || !mine.claim.queues) return -1;
    const at = line.findIndex(({ facts }) => isWaitingId(facts.id, mine.claim.id));
    const ticket = line[at];
    if (ticket === undefined) return -1;
    checkWording(mine.claim, ticket.facts);
    const owner = this.#files.adopt(ticket.facts);
    if (owner === undefined || !isSameFile(ticket.path, owner.path)) return -1;
    [mine.owner, mine.arrivalUs, mine.ticket] = [owner, ticket.arrivalUs, ticket.path];
    return at;
  }

  /** True if what a claim that is given up holds by this entry may be ended: nobody else can go on with it. */
  mayEnd(owner: Owner, head: Head | undefined): boolean {
    if (!this.shareClaims) return true;
    return (
      head !== undefined && leaseIn(this.#options.place, head, owner.facts.id) !== undefined && this.#isOver(owner)
    );
  }

  /** A file for a claim that waits. */
  toWait(claim: Claim): Owner {
    return this.shareClaims ? this.#files.forWaiting(claim, wordingOf(claim)) : this.own(claim);
  }

  /** True if the claim can go on waiting by its file: one of its own, which ends with this process, and has not ended yet. */
  mayWait({ owner, claim }: Mine): boolean {
    if (owner === undefined || owner.leases !== undefined) return false;
    return (!this.shareClaims || this.#isOwnWait(owner, claim)) && this.renew(owner);
  }

  /** True if it was waited by, so that whatever is held by it ends with the process that made it. */
  isProvisional({ owner, claim }: Mine): boolean {
    return this.shareClaims && owner !== undefined && isWaitingId(owner.facts.id, claim.id);
  }

  /** A lease is about to be bound to no process. */
  detaching({ fence, run, fromMs }: { fence: number; run: number; fromMs: number }): void {
    this.#options.beforeDetached?.({ granted: true, fence: BigInt(fence), run, fromMs });
  }

  /** The file by which another process, or thread, may hold what this claim only waits for. */
  heirOf(mine: Mine): Owner | undefined {
    return this.isProvisional(mine) ? this.#files.named(mine.claim) : undefined;
  }

  /** From now on every file that is not shared bears its claim's id, and none of them is used twice. */
  nameAfterClaims(): void {
    this.#named = true;
  }

  /** A file for a claim that takes its lock now, with nearly its whole ttl before it at least. */
  take(mine: Mine): Owner {
    const { claim } = mine;
    // Bound to this process first, so that there is an instant before which the lease ends with it: see accept.ts.
    if (this.shareClaims) return this.toWait(claim);
    if (claim.renewed !== true || claim.lockDelayMs + claim.minHoldMs > 0) return this.own(claim);
    let owner = this.#recent;
    if (owner === undefined || !says(owner.facts, claim)) owner = this.#shared.get(wordingOf(claim));
    // What a lock says about its holders it says by the file's id.
    if (owner?.leases?.has(claim.name) === true) return this.own(claim);
    if (owner === undefined || !this.freshen(owner)) {
      owner = this.#files.forMany(claim, wordingOf(claim));
      this.#shared.set(owner.wording, owner);
    }
    if (owner.leases!.size === 0) this.#unused.delete(owner.wording);
    owner.leases!.set(claim.name, mine);
    this.#recent = owner;
    return owner;
  }

  /** A file of the claim's own, with its whole ttl before it. */
  own(claim: Claim): Owner {
    const wording = wordingOf(claim);
    const idle = this.#named ? undefined : this.#idle.get(wording)?.pop();
    if (idle === undefined) return this.#files.forOne(claim, wording, this.#named);
    this.#idleCount--;
    // Nobody's claim, so that there is no old time to be kept: nobody can be taking over from it.
    return this.#files.extend(idle, claim.ttlMs) ? idle : this.#files.forOne(claim, wording, this.#named);
  }

  /** The claim has ended, and nothing of it refers to the file any more. */
  giveBack(owner: Owner, mine: Mine): void {
    if (owner.leases !== undefined) return this.#leave(owner, owner.leases, mine);
    const { minHoldMs, lockDelayMs } = owner.facts;
    if (this.shareClaims) return void remove(owner.path);
    // A place kept after its end is known by the file's id, which must not come back for somebody else.
    if (this.#named || minHoldMs + lockDelayMs > 0 || this.#idleCount >= IDLE_MAX) return this.discard(owner, mine);
    const same = this.#idle.get(owner.wording);
    if (same === undefined) this.#idle.set(owner.wording, [owner]);
    else same.push(owner);
    this.#idleCount++;
    if (this.#idle.size > IDLE_MAX) this.#forgetEmpty();
    return undefined;
  }

  /** Not to be used for anything new. What is linked elsewhere keeps its times, and those who share it keep their leases. */
  discard(owner: Owner, mine: Mine): void {
    this.#retire(owner);
    if (owner.leases !== undefined) this.#leave(owner, owner.leases, mine);
    else if (!this.shareClaims || this.#isOver(owner) || this.#isOwnWait(owner, mine.claim)) remove(owner.path);
  }

  /** Renews a claim that holds or waits, and all that share its file. `false`: its time was over, or its file is gone. */
  renew(owner: Owner, ttlMs: number = owner.facts.ttlMs): boolean {
    const renewed = this.#files.renew(owner, ttlMs);
    if (owner.leases === undefined) return renewed;
    if (!renewed) this.#retire(owner);
    else this.#reportLapsed(owner, owner.leases);
    return renewed;
  }

  /** As {@link renew}, but does nothing where that was done a moment ago. */
  freshen(owner: Owner): boolean {
    const { ttlMs } = owner.facts;
    if (owner.leases === undefined) return this.renew(owner);
    if (owner.untilMs - this.#options.moment.machineMs() >= ttlMs * (1 - FRESH)) return true;
    if (owner.leases.size > 0) return this.renew(owner);
    // Nobody's claim: there is no old time to be kept.
    if (this.#files.extend(owner, ttlMs)) return true;
    this.#retire(owner);
    return false;
  }

  /**
   * Ends the claim's time without needing any space on the disk. `false`: others share its file, so that it cannot be
   * done; it is reported at every renewal of theirs until it has ended.
   */
  resign(owner: Owner, mine: Mine): boolean {
    if (owner.leases !== undefined && owner.leases.size > 1) {
      mine.fromMs = -Infinity;
      return false;
    }
    this.#files.end(owner);
    this.#retire(owner);
    return true;
  }

  /** An owner file that another thread or process made for this claim. */
  adopt(facts: OwnerFacts): Owner | undefined {
    return this.#files.adopt(facts);
  }

  close(): void {
    for (const owner of [...this.#idle.values()].flat()) remove(owner.path);
    for (const owner of this.#unused.values()) remove(owner.path);
    for (const files of [this.#idle, this.#shared, this.#unused]) files.clear();
    this.#recent = undefined;
    this.#idleCount = 0;
  }

  #isOwnWait({ facts }: Owner, { id }: Claim): boolean {
    return facts.instance === this.#options.instance && isWaitingId(facts.id, id);
  }

  #isOver({ path }: Owner): boolean {
    return (disk.times(path)?.mtimeMs ?? 0) <= this.#options.moment.machineMs();
  }

  #leave(owner: Owner, leases: Map<string, Mine>, mine: Mine): void {
    if (leases.get(mine.claim.name) === mine) leases.delete(mine.claim.name);
    if (leases.size > 0) return;
    if (this.#shared.get(owner.wording) !== owner) {
      remove(owner.path);
      return;
    }
    this.#unused.set(owner.wording, owner);
    if (this.#unused.size <= IDLE_MAX) return;
    const [oldest] = this.#unused.values();
    this.#retire(oldest!);
    remove(oldest!.path);
  }

  #retire(owner: Owner): void {
    if (this.#shared.get(owner.wording) !== owner) return;
    if (this.#recent === owner) this.#recent = undefined;
    this.#shared.delete(owner.wording);
    this.#unused.delete(owner.wording);
  }

  #reportLapsed({ facts, fromMs }: Owner, leases: Map<string, Mine>): void {
    for (const mine of leases.values()) if (mine.fromMs + facts.ttlMs <= fromMs) this.#options.lapsed(mine);
  }

  #forgetEmpty(): void {
    for (const [wording, same] of this.#idle) if (same.length === 0) this.#idle.delete(wording);
  }
}

/** True only if the file's wording is the claim's; to compare every text of its meta would take as long as to spell it. */
function says(facts: OwnerFacts, { mode, limit, ttlMs, holder, meta }: Claim): boolean {
  return (
    facts.meta === meta &&
    facts.ttlMs === ttlMs &&
    facts.mode === mode &&
    facts.limit === limit &&
    facts.holder === holder
  );
}

function wordingOf({ mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta }: Claim): string {
  let wording = `${mode} ${limit} ${ttlMs} ${lockDelayMs} ${minHoldMs} ${holder}`;
  for (const text in meta) wording += `\n${JSON.stringify([text, meta[text]])}`;
  return wording;
}
