/** The backend: answers the core's calls with the claims of this process and the locks on the disk. `lock.ts` does the work on a lock. */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
} from "../../contract/backend.ts";
import { ArgumentError } from "../../contract/argument-error.ts";
import { systemClock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { grantedTo, LocalClaims } from "./local-claim.ts";
import { ClaimSteps } from "./claim-steps.ts";
import { Cleanup } from "./cleanup.ts";
import { Companions } from "./companions.ts";
import { defaultDirectory, type DirectoryPaths, freshName, pathsIn } from "./directory.ts";
import { OpenDirectory } from "./directory-checks.ts";
import { CloseErrors } from "./errors.ts";
import { ENTRIES_MAX } from "./fences.ts";
import { ForcedRecords } from "./force-release.ts";
import { LeaseFiles } from "./lease-files.ts";
import { Lock } from "./lock.ts";
import type { LockOptions } from "./lock-options.ts";
import type { FileOptions } from "./options.ts";
import { FactsCache } from "./queue.ts";
import { Notes } from "./notes.ts";
import { Renewals } from "./renewals.ts";
import { Shown } from "./shown.ts";
import { WaitingClaims } from "./waiting.ts";
import { WakeUpSockets } from "./wake-up-sockets.ts";
import { Wanted } from "./wanted.ts";

/** Locks whose newest entry is remembered, which saves finding it again: this many, and those in use. */
const LOCKS_MAX = 2000;

/** No process is there to hear that a lease which outlives its own is wanted. */
const DETACHED =
  "a lease that outlives its process has none that would hear that it is wanted, so that it is not kept unused";
const CAN: Abilities = { outcomes: true, wanted: true, otherTtl: true, steal: true, waiters: true, linger: true };

export class FileBackend implements Backend {
  readonly name = "file";
  readonly can: Abilities;
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
  readonly #shown: Shown;
  readonly #steps: ClaimSteps;
  readonly #wanted: Wanted;
  #listener: Listener | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link file}. */
  constructor(options: FileOptions) {
    const instance = freshName();
    const clock = options.clock ?? systemClock;
    // Throws where this process has no clock in common with the others.
    machineMs(clock);
    this.#options = options;
    this.directory = options.dir ?? defaultDirectory();
    this.can = options.detached === true ? { ...CAN, linger: DETACHED } : CAN;
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
    const parts = {
      paths,
      leaseFiles: this.#leaseFiles,
      claims: this.#claims,
      forced: this.#forced,
      directory: this.#openDirectory,
      lock: (name: string): Lock => this.#lock(name),
    };
    const notes = new Notes(paths, clock);
    this.#renewals = new Renewals({ ...parts, clock, notes });
    this.#shown = new Shown(parts);
    this.#sockets = new WakeUpSockets(paths, instance, {
      woken: (fileId, others) => this.#woken(fileId, others),
      wanted: (fileId, directory) => this.#closed || this.#wanted.heard(fileId, directory),
    });
    this.#wanted = new Wanted({
      ...parts,
      clock,
      hears: () => this.#sockets.works,
      tell: (claimId) => this.#listener?.wanted?.(claimId),
    });
    this.#waiting = new WaitingClaims(this.#sockets, clock, options.hints ?? "socket");
    this.#steps = new ClaimSteps({ ...parts, notes, waiting: this.#waiting });
    this.#companions = new Companions(paths, instance);
    this.#lockOptions = {
      paths,
      clock,
      entriesMax: options.entriesMax ?? ENTRIES_MAX,
      leaseFiles: this.#leaseFiles,
      facts: new FactsCache(),
      keepForced: (records) => this.#forced.keep(records),
      wake: (facts, others) => this.#sockets.wake(facts.instance, facts.id, others),
      wakeAll: (all) => this.#sockets.wakeAll(all),
      want: (facts, directory) => this.#sockets.want(facts.instance, facts.id, directory),
      restored: () => this.#restored(),
    };
    this.#cleanup = new Cleanup(this.#lockOptions, this.#forced, clock);
  }

  // The methods are async although little in them waits: a throw becomes a rejection, as from any other store.

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#use(claim.name, () => this.#steps.attempt(claim));
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

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    return this.#use(claim.name, () => this.#steps.release(claim, outcome));
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const swapped = this.#use(held.name, () => this.#steps.swap(held, next));
    if (swapped !== undefined) return { ...swapped, released: "held" };
    // Two steps: each may be repeated, and a release that is repeated because of the next claim would not find its lease.
    const released = this.#use(held.name, () => this.#steps.release(held));
    return { ...this.#use(next.name, () => this.#steps.attempt(next)), released };
  }

  async inspect(name: string): Promise<LockState> {
    return this.#shown.one(name);
  }

  query(prefix: string): Promise<Snapshot> {
    return this.#shown.all(prefix);
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return this.#use(name, () => this.#forced.forceRelease(this.#lock(name), fence, by, reason));
  }

  async steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    return this.#use(claim.name, () => this.#steps.steal(claim, reason));
  }

  async forget(name: string, fence: bigint): Promise<boolean> {
    return this.#use(name, () => this.#lock(name).forget(fence));
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  expectWanted(claim: Claim): void {
    this.#wanted.expect(claim.id);
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
    this.#wanted.close();
    this.#waiting.close();
    if (!this.#openDirectory.isOpen) return;
    const errors = new CloseErrors(this.directory);
    let held = false;
    for (const local of this.#claims.all()) {
      if (this.#claims.holds(local)) held = true;
      else errors.collect(local.claim.name, () => this.#steps.leave(local));
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

  /** Another process asks to check a claim of ours: it waits, or it may be lost. */
  #woken(fileId: string, others: boolean | undefined): void {
    if (this.#closed || this.#waiting.wake(fileId, others)) return;
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
