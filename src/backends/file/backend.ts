/** The backend: answers the core's calls with the claims of this process and the locks on the disk. `lock.ts` does the work on a lock. */
import type {
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
} from "../../contract/backend.ts";
import { ArgumentError } from "../../contract/argument-error.ts";
import { systemClock } from "../../contract/clock.ts";
import { stateOf } from "../../contract/snapshot.ts";
import { grantedTo, LocalClaims } from "./local-claim.ts";
import { Cleanup } from "./cleanup.ts";
import { Companions } from "./companions.ts";
import { defaultDirectory, type DirectoryPaths, freshName, pathsIn } from "./directory.ts";
import { OpenDirectory } from "./directory-checks.ts";
import { namesOfLocks } from "./epochs.ts";
import { CloseErrors, warnOfUnreadable } from "./errors.ts";
import { ENTRIES_MAX } from "./fences.ts";
import { ForcedRecords } from "./force-release.ts";
import { LeaseFiles } from "./lease-files.ts";
import { Lock, type LockOptions } from "./lock.ts";
import type { FileOptions } from "./options.ts";
import type { BlockedBy, LockSnapshot } from "./query.ts";
import { FactsCache } from "./queue.ts";
import { Renewals } from "./renewals.ts";
import { WaitingClaims } from "./waiting.ts";
import { WakeUpSockets } from "./wake-up-sockets.ts";

/** Locks whose newest entry is remembered, which saves finding it again: this many, and those in use. */
const LOCKS_MAX = 2000;
/** Long work is cut into slices, so the event loop can run in between. */
const SLICE = 100;

export class FileBackend implements Backend {
  readonly name = "file";
  readonly directory: string;
  readonly #options: FileOptions;
  readonly #paths: DirectoryPaths;
  readonly #openDirectory: OpenDirectory;
  readonly #leaseFiles: LeaseFiles;
  readonly #forced: ForcedRecords;
  readonly #sockets: WakeUpSockets;
  readonly #waiting: WaitingClaims;
  readonly #companions: Companions;
  readonly #cleanup: Cleanup;
  readonly #lockOptions: LockOptions;
  readonly #locks = new Map<string, Lock>();
  readonly #claims: LocalClaims;
  readonly #renewals: Renewals;
  #listener: Listener | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link file}. */
  constructor(options: FileOptions) {
    const instance = freshName();
    const clock = options.clock ?? systemClock;
    this.#options = options;
    this.directory = options.dir ?? defaultDirectory();
    this.#paths = pathsIn(this.directory);
    const paths = this.#paths;
    this.#openDirectory = new OpenDirectory(paths, {
      opened: () => this.#opened(),
      restored: () => this.#restored(),
    });
    this.#leaseFiles = new LeaseFiles({
      paths,
      clock,
      instance,
      detached: options.detached ?? false,
      beforeDetached: options.beforeDetached,
      // Later: the renewal that finds it is in the middle of something else.
      lapsed: ({ claim }) => queueMicrotask(() => this.#closed || this.#renewals.end(claim.id)),
    });
    this.#claims = new LocalClaims(clock, (facts) => this.#leaseFiles.adopt(facts));
    this.#forced = new ForcedRecords(paths, clock);
    this.#renewals = new Renewals({
      leaseFiles: this.#leaseFiles,
      claims: this.#claims,
      forced: this.#forced,
      clock,
      directory: this.#openDirectory,
      lock: (name) => this.#lock(name),
    });
    this.#sockets = new WakeUpSockets(paths, instance, (fileId) => this.#woken(fileId));
    this.#waiting = new WaitingClaims(this.#sockets, clock, options.hints ?? "socket");
    this.#companions = new Companions(paths, instance);
    this.#lockOptions = {
      paths,
      clock,
      entriesMax: options.entriesMax ?? ENTRIES_MAX,
      leaseFiles: this.#leaseFiles,
      facts: new FactsCache(),
      keepForced: (records) => this.#forced.keep(records),
      wake: (facts) => this.#sockets.wake(facts.instance, facts.id),
      restored: () => this.#restored(),
    };
    this.#cleanup = new Cleanup(this.#lockOptions, this.#forced, clock);
  }

  // The methods are async although little in them waits: a throw becomes a rejection, as from any other store.

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#use(claim.name, () => this.#attempt(claim));
  }

  async watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const local = this.#claims.known(claim.id);
    if (this.#closed || local?.file === undefined || local.ticket === undefined) return undefined;
    const fileId = local.file.facts.id;
    const directory = this.#lock(claim.name).log.seen?.directory;
    await this.#waiting.wait(fileId, directory, signal);
    if (this.#closed || signal.aborted) return undefined;
    return this.#use(claim.name, () => (this.#lock(claim.name).checkGranted(local) ? grantedTo(local) : undefined));
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#renewals.renew(claims, fences);
  }

  async release(claim: Claim): Promise<Released> {
    return this.#use(claim.name, () => this.#release(claim));
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const swapped = this.#use(held.name, () => this.#swap(held, next));
    if (swapped !== undefined) return { ...swapped, released: "held" };
    // Two steps: each may be repeated, and a release that is repeated because of the next claim would not find its lease.
    const released = this.#use(held.name, () => this.#release(held));
    return { ...this.#use(next.name, () => this.#attempt(next)), released };
  }

  async inspect(name: string): Promise<LockState> {
    return stateOf(name, await this.query(name));
  }

  async query(prefix: string): Promise<Snapshot> {
    const names = this.#use(prefix, () => namesOfLocks(this.#paths, prefix));
    const snapshots: LockSnapshot[] = [];
    for (const [at, name] of names.entries()) {
      if (at % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      const snapshot = this.#snapshot(name, prefix);
      if (snapshot !== undefined) snapshots.push(snapshot);
    }
    this.#forced.keep(snapshots.flatMap(({ forced }) => forced));
    return {
      held: snapshots.flatMap(({ held }) => held),
      pending: snapshots.flatMap(({ pending }) => pending),
      forced: this.#use(prefix, () => this.#forced.list(prefix)),
    };
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#use(name, () => this.#forced.forceRelease(this.#lock(name), fence, by, reason));
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Read when a worker thread is about to renew: from then on each lease file has its claim's id, so the thread finds it. */
  get renewer(): { readonly module: string; readonly data: unknown } {
    this.#leaseFiles.nameAfterClaims();
    return { module: new URL("./open.js", import.meta.url).href, data: { dir: this.directory } };
  }

  /**
   * Keeps every lease of this backend alive while that process runs, even after this one has died or its ttl has passed:
   * for a child that works under the lock. Returns how to end it; it also ends with that process.
   */
  alsoAlive(pid: number): () => void {
    if (!Number.isSafeInteger(pid) || pid <= 0)
      throw new ArgumentError(`Expected \`pid\` to be a process id, got ${pid}`);
    return this.#use("", () => this.#companions.add(pid));
  }

  /** Runs the cleanup now, ignoring its age limits. @internal */
  async clean(halfMadeMs = 0): Promise<void> {
    this.#use("", () => {});
    await this.#cleanup.clean(0, halfMadeMs);
  }

  /** Leases stay until their ttl, as after the end of any process. The core releases them before. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#openDirectory.close();
    this.#listener = undefined;
    this.#cleanup.stop();
    this.#waiting.close();
    if (!this.#openDirectory.isOpen) return;
    const errors = new CloseErrors(this.directory);
    let held = false;
    for (const local of this.#claims.all()) {
      if (this.#claims.holds(local)) held = true;
      else errors.collect(local.claim.name, () => void this.#lock(local.claim.name).release(local, false));
    }
    this.#claims.clear();
    errors.collect("", () => this.#leaseFiles.close());
    await this.#sockets.flush();
    errors.collect("", () => this.#sockets.close());
    if (!held) errors.collect("", () => this.#companions.close());
    await this.#cleanup.last();
    errors.throwIfAny();
  }

  get #closed(): boolean {
    return this.#openDirectory.isClosed;
  }

  #use<T>(name: string, step: () => T): T {
    return this.#openDirectory.use(name, step);
  }

  /** Both in one entry. `undefined`: it takes two. */
  #swap(held: Claim, next: Claim): Granted | undefined {
    const [local, following] = [this.#claims.known(held.id), this.#claims.of(next)];
    if (local?.held === undefined || held.name !== next.name) return undefined;
    if (!this.#lock(held.name).swap(local, following)) return undefined;
    this.#claims.forget(held.id);
    return grantedTo(following);
  }

  #attempt(claim: Claim): Granted | Refused {
    const local = this.#claims.of(claim);
    let blockedBy: BlockedBy | undefined;
    try {
      blockedBy = this.#lock(claim.name).take(local, claim.queues);
    } catch (error) {
      if (local.file === undefined) this.#claims.forget(claim.id);
      throw error;
    }
    if (blockedBy === undefined) return grantedTo(local);
    if (local.file === undefined) this.#claims.forget(claim.id);
    const retryMs = this.#waiting.expect(local, blockedBy);
    const { heldBy, ahead } = blockedBy;
    return ahead === undefined ? { granted: false, heldBy } : { granted: false, heldBy, position: ahead + 1, retryMs };
  }

  /** `undefined`: the lock cannot be read. That is warned of once, and only a query for its own name fails. */
  #snapshot(name: string, prefix: string): LockSnapshot | undefined {
    try {
      return this.#use(name, () => this.#lock(name).snapshot());
    } catch (error) {
      if (name === prefix || this.#closed) throw error;
      warnOfUnreadable(error);
      return undefined;
    }
  }

  #release(claim: Claim): Released {
    const lock = this.#lock(claim.name);
    const local = this.#claims.known(claim.id) ?? this.#claims.adopt(claim, this.#leaseFiles.leaseOf(claim, lock.log));
    if (local === undefined) return "absent";
    if (local.file !== undefined) this.#waiting.forget(local.file.facts.id);
    // Who resumes another process's lease need not know its minHold, but the record does.
    const released = lock.release(local, claim.minHoldMs > 0 || claim.resumes === true);
    this.#claims.forget(claim.id);
    return released;
  }

  /** Another process asks to check a claim of ours: it waits, or it may be lost. */
  #woken(fileId: string): void {
    if (this.#closed || this.#waiting.wake(fileId)) return;
    for (const { id, reason } of this.#renewals.lost(fileId)) this.#listener?.lost(id, reason);
  }

  #lock(name: string): Lock {
    const known = this.#locks.get(name);
    if (known !== undefined) return known;
    // Only what is remembered about them is lost: the truth is on the disk.
    if (this.#locks.size >= LOCKS_MAX + this.#claims.count) this.#locks.clear();
    const lock = new Lock(name, this.#lockOptions);
    this.#locks.set(name, lock);
    return lock;
  }

  #opened(): void {
    this.#listenOnSocket();
    if (this.#options.renewsOnly !== true) this.#cleanup.start();
  }

  /** The directory was removed and made again: all leases in it are gone, and so is our socket. */
  #restored(): void {
    this.#sockets.close();
    this.#listenOnSocket();
    this.#companions.restore();
    this.#listener?.doubt();
  }

  #listenOnSocket(): void {
    if (this.#options.renewsOnly !== true && (this.#options.hints ?? "socket") === "socket") this.#sockets.listen();
  }
}
