/** The backend: claims of this process, by id, and what the core may ask about them. The work on a lock is in `lock.ts`. */
import type { Backend, Claim, Granted, Listener, Refused, Released, Renewal, Snapshot, Swapped } from "../backend.ts";
import { systemClock } from "../clock.ts";
import { LockBackendError } from "../errors.ts";
import { Claims, grantedTo } from "./claims.ts";
import { codeOf } from "./disk.ts";
import { Companions } from "./fate.ts";
import { ForcedRecords } from "./forced.ts";
import { restorePlace } from "./ground.ts";
import { Hints } from "./hints.ts";
import { Janitor } from "./janitor.ts";
import { Lock, type LockOptions } from "./lock.ts";
import { momentOf } from "./moment.ts";
import { News } from "./news.ts";
import { ENTRIES_MAX } from "./numbers.ts";
import type { Owner } from "./owner-file.ts";
import { Owners } from "./owners.ts";
import type { FileOptions } from "./options.ts";
import { checkFileSystem, defaultDirectory, freshName, type Place, placeAt } from "./place.ts";
import { FactsCache } from "./queue.ts";
import { Renewals } from "./renewals.ts";
import { namesOfLocks } from "./epochs.ts";
import type { Obstacle, View } from "./sight.ts";
import { explain, Leftovers, warnOfUnreadable } from "./trouble.ts";

/** Locks whose newest entry is remembered, which saves finding it again: this many, and those in use. */
const LOCKS_MAX = 2000;
/** Long work is cut into slices, so that the event loop gets its turn. */
const SLICE = 100;

export class FileBackend implements Backend {
  readonly name = "file";
  readonly directory: string;
  readonly #options: FileOptions;
  readonly #place: Place;
  readonly #owners: Owners;
  readonly #forced: ForcedRecords;
  readonly #hints: Hints;
  readonly #news: News;
  readonly #companions: Companions;
  readonly #janitor: Janitor;
  readonly #around: LockOptions;
  readonly #locks = new Map<string, Lock>();
  readonly #claims: Claims;
  readonly #renewals: Renewals;
  #listener: Listener | undefined;
  #open = false;
  #closed = false;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link file}. */
  constructor(options: FileOptions) {
    const instance = freshName();
    const clock = options.clock ?? systemClock;
    this.#options = options;
    this.directory = options.dir ?? defaultDirectory();
    this.#place = placeAt(this.directory);
    const [place, moment] = [this.#place, momentOf(clock)];
    this.#owners = new Owners({
      place,
      moment,
      instance,
      detached: options.detached ?? false,
      beforeDetached: options.beforeDetached,
      // Later: whoever finds it is in the middle of something else.
      lapsed: (mine) => queueMicrotask(() => this.#closed || this.#renewals.end(mine)),
    });
    this.#claims = new Claims(this.#owners, moment);
    this.#forced = new ForcedRecords(place, moment);
    this.#renewals = new Renewals({
      place,
      owners: this.#owners,
      claims: this.#claims,
      forced: this.#forced,
      moment,
      lock: (name) => this.#lock(name),
    });
    this.#hints = new Hints(place, instance, (ownerId) => this.#look(ownerId));
    this.#news = new News(this.#hints, clock, options.hints ?? "socket");
    this.#companions = new Companions(place, instance);
    this.#around = {
      place,
      moment,
      entriesMax: options.entriesMax ?? ENTRIES_MAX,
      owners: this.#owners,
      facts: new FactsCache(),
      forced: this.#forced,
      keepForced: (records) => this.#forced.keep(records),
      hint: (owner) => this.#hints.tell(owner.instance, owner.id),
      restored: () => this.#restored(),
    };
    this.#janitor = new Janitor(this.#around, clock);
  }

  // The methods are async although little in them waits: a throw becomes a rejection, as from any other store.

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#guarded(claim.name, () => this.#attempt(claim));
  }

  async watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const mine = this.#claims.known(claim.id);
    if (this.#closed || mine?.owner === undefined || mine.ticket === undefined) return undefined;
    const ownerId = mine.owner.facts.id;
    const directory = this.#lock(claim.name).log.seen?.directory;
    await this.#news.wait(ownerId, directory, signal);
    if (this.#closed || signal.aborted) return undefined;
    return this.#guarded(claim.name, () => (this.#lock(claim.name).look(mine) ? grantedTo(mine) : undefined));
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const renewals: Renewal[] = [];
    const round = new Set<Owner>();
    for (const [at, claim] of claims.entries()) {
      if (renewals.length % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      try {
        renewals.push(this.#guarded(claim.name, () => this.#renewals.renew(claim, round, fences?.[at])));
      } catch (cause) {
        renewals.push({ held: "unknown", cause });
      }
    }
    return renewals;
  }

  async release(claim: Claim): Promise<Released> {
    return this.#guarded(claim.name, () => this.#release(claim));
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    return this.#guarded(held.name, () => {
      const [mine, following] = [this.#claims.known(held.id), this.#claims.of(next)];
      if (mine?.held !== undefined && held.name === next.name && this.#lock(held.name).swap(mine, following)) {
        this.#claims.forget(held.id);
        return { ...grantedTo(following), released: "held" };
      }
      const released = this.#release(held);
      return { ...this.#attempt(next), released };
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    const names = this.#guarded(prefix, () => namesOfLocks(this.#place, prefix));
    const views = [];
    for (const [at, name] of names.entries()) {
      if (at % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      const view = this.#view(name, prefix);
      if (view !== undefined) views.push(view);
    }
    this.#forced.keep(views.flatMap(({ forced }) => forced));
    return {
      held: views.flatMap(({ held }) => held),
      pending: views.flatMap(({ pending }) => pending),
      forced: this.#guarded(prefix, () => this.#forced.list(prefix)),
    };
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#guarded(name, () => this.#lock(name).break(fence, by, reason));
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Asked for when a worker thread is about to renew: from then on each owner file bears its claim's id, to be found by. */
  get renewer(): { readonly module: string; readonly data: unknown } {
    this.#owners.nameAfterClaims();
    return { module: new URL("./open.js", import.meta.url).href, data: { dir: this.directory } };
  }

  /**
   * Keeps every lease of this backend alive while that process runs, even after this one has died or its ttl has passed:
   * for a child that works under the lock. Returns how to end it; it also ends with that process.
   */
  alsoAlive(pid: number): () => void {
    if (!Number.isSafeInteger(pid) || pid <= 0) throw new TypeError(`Expected \`pid\` to be a process id, got ${pid}`);
    return this.#guarded("", () => this.#companions.add(pid));
  }

  /** Removes, now and without patience, what the janitor would remove in time. @internal */
  async clean(halfMadeMs = 0): Promise<void> {
    this.#guarded("", () => {});
    await this.#janitor.clean(0, halfMadeMs);
  }

  /** Leases stay until their ttl, as after any process's end; the core releases them before. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    this.#listener = undefined;
    this.#janitor.stop();
    this.#news.close();
    if (!this.#open) return;
    const left = new Leftovers(this.directory);
    let held = false;
    for (const mine of this.#claims.all()) {
      if (this.#claims.holds(mine)) held = true;
      else left.unless(mine.claim.name, () => void this.#lock(mine.claim.name).release(mine));
    }
    this.#claims.clear();
    left.unless("", () => this.#owners.close());
    await this.#hints.flush();
    left.unless("", () => this.#hints.close());
    if (!held) left.unless("", () => this.#companions.close());
    await this.#janitor.last();
    left.check();
  }

  #attempt(claim: Claim): Granted | Refused {
    const mine = this.#claims.of(claim);
    let obstacle: Obstacle | undefined;
    try {
      obstacle = this.#lock(claim.name).take(mine);
    } catch (error) {
      if (mine.owner === undefined) this.#claims.forget(claim.id);
      throw error;
    }
    if (obstacle === undefined) return grantedTo(mine);
    if (mine.owner === undefined) this.#claims.forget(claim.id);
    const retryMs = this.#news.expect(mine, obstacle);
    const { heldBy, ahead } = obstacle;
    return ahead === undefined ? { granted: false, heldBy } : { granted: false, heldBy, position: ahead + 1, retryMs };
  }

  /** `undefined`: the lock cannot be read, which is told once, and only its own name's query fails for it. */
  #view(name: string, prefix: string): View | undefined {
    try {
      return this.#guarded(name, () => this.#lock(name).view());
    } catch (error) {
      if (name === prefix || this.#closed) throw error;
      warnOfUnreadable(error);
      return undefined;
    }
  }

  #release(claim: Claim): Released {
    const lock = this.#lock(claim.name);
    const mine = this.#claims.known(claim.id) ?? this.#claims.adopt(claim, lock.find(claim.id));
    if (mine === undefined) return "absent";
    if (mine.owner !== undefined) this.#news.forget(mine.owner.facts.id);
    const released = lock.release(mine);
    this.#claims.forget(claim.id);
    return released;
  }

  /** Somebody says that one of our claims has news. */
  #look(ownerId: string): void {
    if (this.#closed || this.#news.tell(ownerId)) return;
    for (const { id, reason } of this.#renewals.lost(ownerId)) this.#listener?.lost(id, reason);
  }

  #lock(name: string): Lock {
    const known = this.#locks.get(name);
    if (known !== undefined) return known;
    // Only what is remembered about them is lost; the truth is on the disk.
    if (this.#locks.size >= LOCKS_MAX + this.#claims.count) this.#locks.clear();
    const lock = new Lock(name, this.#around);
    this.#locks.set(name, lock);
    return lock;
  }

  #guarded<T>(name: string, act: () => T): T {
    if (this.#closed) throw new LockBackendError("file", name, "The file backend is closed.", { fatal: true });
    try {
      if (!this.#open) this.#start();
      try {
        return act();
      } catch (error) {
        // Somebody removed the directory, or a part of it: it is made anew, and what was asked is asked again.
        if (codeOf(error) !== "ENOENT") throw error;
        restorePlace(this.#place, true);
        this.#restored();
        return act();
      }
    } catch (error) {
      throw explain(error, name, this.directory);
    }
  }

  #start(): void {
    restorePlace(this.#place);
    checkFileSystem(this.#place);
    this.#open = true;
    if (this.#options.renewsOnly === true) return;
    if ((this.#options.hints ?? "socket") === "socket") this.#hints.listen();
    this.#janitor.start();
  }

  /** The directory was removed and made anew: whatever was held is gone, and our socket with it. */
  #restored(): void {
    this.#hints.close();
    if ((this.#options.hints ?? "socket") === "socket" && this.#options.renewsOnly !== true) this.#hints.listen();
    this.#companions.restore();
    this.#listener?.doubt();
  }
}
