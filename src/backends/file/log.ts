/**
 * The truth about one lock: a log of hard links. An entry is a file linked to the next number in the epoch's directory,
 * which only one process can do: each change of a lock's state is one atomic compare-and-swap. The newest entry is
 * the state. Nothing is ever deleted from a live epoch, so a slow process cannot make a number a second time.
 *
 * An epoch ends with an entry that names the next one (it is the next one's first entry). The next is prepared aside under
 * a name of its own, and gets its final name only after that entry was made, so only one of several prepared ones becomes
 * an epoch. Then the old directory is renamed away: a process that still writes to it gets ENOENT.
 */
import { join } from "node:path";
import type { Clock } from "../../contract/clock.ts";
import { createFile, disk, ForeignError, tryLink, tryRemove, tryRename, tryRmdir, trySyncDirectory } from "./disk.ts";
import { survivors, syncNames } from "./power-cut.ts";
import { carried, discardValue } from "./outcomes.ts";
import {
  discard,
  discardEpoch,
  entryExists,
  epochNumber,
  fencesOf,
  findEpoch,
  finishEpoch,
  FREE_FILE,
  isOfThisBoot,
  makeFreeFile,
  makeLock,
  newEpoch,
  newestAfter,
  retireEpoch,
  toDirectory,
  tryCreateIn,
  tryMkdirIn,
} from "./epochs.ts";
import { fenceFloor, type FenceRange, firstRange, nextRange, raiseFenceFloor } from "./fences.ts";
import { prepareDirectory } from "./directory-checks.ts";
import { thisProcess } from "./process-identity.ts";
import { type DirectoryPaths, freshName } from "./directory.ts";
import {
  type Entry,
  type Epoch,
  type ForcedRecord,
  FREE,
  isBlank,
  type LeaseFacts,
  type LockState,
  parseEntry,
  parseEpoch,
  writeEntry,
} from "./records.ts";
import { heldBy } from "./admission.ts";
import { tooBusy } from "./errors.ts";

const TRIES_MAX = 10_000;

/** The newest entry, as it was when it was read. */
export interface Head {
  /** The directory of the lock's present incarnation. */
  readonly incarnation: string;
  readonly epoch: Epoch;
  readonly directory: string;
  readonly seq: number;
  readonly state: LockState;
  /** The entry is the holder's lease file itself, so its times are the lease's. */
  readonly plain: boolean;
}

/** Called with the fence and run of an entry just before it is made. */
export type Announce = (fence: number, run: number) => void;

/** The next entry: a holder's lease file, `free`, or a state written for it, which learns its own fence and run. */
export type Next =
  | { readonly facts: LeaseFacts; readonly source: string; readonly announce?: Announce | undefined }
  | { readonly free: true }
  | {
      readonly state: (fence: number, run: number) => LockState;
      /** True: it survives a power cut, once {@link LockLog.sync} was called after it. */
      readonly lasting?: boolean | undefined;
    };

export interface LogOptions {
  readonly paths: DirectoryPaths;
  readonly clock: Clock;
  readonly entriesMax: number;
  /** Keeps what a state says about forced releases, before the next state replaces it. */
  keepForced(records: readonly ForcedRecord[]): void;
  /** The directory vanished and was made again. */
  restored(): void;
}

export class LockLog {
  readonly name: string;
  /** The name of the lock's directories. */
  readonly directory: string;
  readonly #options: LogOptions;
  readonly #path: string;
  #head: Head | undefined;

  constructor(name: string, options: LogOptions) {
    this.name = name;
    this.directory = toDirectory(name);
    this.#options = options;
    this.#path = join(options.paths.locks, this.directory);
  }

  /** The head as last seen. It may be stale; an append to a stale head fails. */
  get seen(): Head | undefined {
    return this.#head;
  }

  /** The head now. `undefined` for a lock that does not exist, unless it is to be made. */
  read(make: boolean): Head | undefined {
    let missed = 0;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const from = this.#head ?? this.#find();
      if (from === "absent") {
        if (!make) return undefined;
        this.#make();
        continue;
      }
      this.#head = from === undefined ? undefined : this.#follow(from);
      if (this.#head !== undefined) return this.#head;
      // So many listings in a row without any epoch cannot all have been outdated.
      if (from === undefined && ++missed > TRIES_MAX / 10)
        throw new ForeignError(this.#path, "there is no epoch in it");
    }
    throw tooBusy(this.name);
  }

  /**
   * Adds the next entry if `head` is still the newest. `undefined`: it is not, or the source is gone.
   * `"unseen"`: it may have been added, but the epoch has ended since: the next one shows it.
   */
  append(head: Head, next: Next): Head | "too many" | "unseen" | undefined {
    if (head.state.forced.length > 0) this.#options.keepForced(head.state.forced);
    const at = this.#withRoom(head);
    if (at === undefined) return undefined;
    const seq = at.seq + 1;
    const [fence, run] = fencesOf(at.epoch, seq);
    const state = stateOf(next, fence, run);
    const path = `${at.directory}/${seq}`;
    const outcome = this.#link(next, state, `${at.directory}/${FREE_FILE}`, path);
    if (outcome === "too many") return "too many";
    // A lone holder that frees its lock needs no check: if another process went on from its entry, it had ended before.
    if (outcome === "linked" && !("free" in next && at.plain) && !entryExists(path)) return this.#forget() ?? "unseen";
    this.#head = outcome === "linked" ? headAfter(at, seq, state, "facts" in next) : undefined;
    if (this.#head !== undefined) dropValue(at, state);
    // A power cut can take the free file. It is made again when it is missed.
    if (outcome === "gone" && "free" in next && disk.exists(at.directory)) makeFreeFile(at.directory);
    // What exists and cannot be found is a link that leads nowhere. This backend makes none: read() throws.
    if (outcome === "exists" && !disk.exists(path)) disk.read(path);
    return this.#head;
  }

  #link(next: Next, state: LockState, free: string, path: string): ReturnType<typeof tryLink> {
    if ("facts" in next) return tryLink(next.source, path);
    if ("free" in next) return tryLink(free, path);
    const source = join(this.#options.paths.trash, freshName());
    createFile(source, writeEntry(state), next.lasting);
    const outcome = tryLink(source, path);
    tryRemove(source);
    return outcome;
  }

  /** What is written up to this entry survives a power cut. */
  sync({ directory, incarnation }: Head): void {
    syncNames([directory, incarnation, this.#path, this.#options.paths.locks]);
  }

  /** Ends an idle lock: its last entry says so, then its directory is removed. `false`: it is in use. */
  retire(head: Head): boolean {
    if (head.state.forced.length > 0) this.#options.keepForced(head.state.forced);
    const source = join(this.#options.paths.trash, freshName());
    raiseFenceFloor(this.#options.paths.floor, fencesOf(head.epoch, head.seq + 1)[0]);
    createFile(source, writeEntry({ kind: "gone" }));
    const path = join(head.directory, String(head.seq + 1));
    const done = tryLink(source, path) === "linked" && entryExists(path);
    tryRemove(source);
    this.#head = undefined;
    if (done) this.#remove(head.incarnation);
    return done;
  }

  /** Finds the newest epoch. `undefined`: the directory changed while it was read. */
  #find(): Head | "absent" | undefined {
    const found = findEpoch(this.#path);
    if (typeof found !== "object") return found;
    const { incarnation, directory, id, text } = found;
    const epoch = isBlank(text) && !isOfThisBoot(id) ? this.#blankEpoch(id) : parseEpoch(join(directory, "0"), text);
    return { incarnation, directory, epoch, seq: 0, state: epoch.state, plain: false };
  }

  /** A power cut took the text of the first entry. Its boot is unknown, so the next append starts a new epoch. */
  #blankEpoch(id: string): Epoch {
    return { ...newEpoch(this.name, 1, this.#firstRange(), FREE), id, boot: "lost" };
  }

  #follow(from: Head): Head | undefined {
    const seq = newestAfter(from.directory, from.seq);
    if (seq > from.seq) return this.#load(from, seq);
    return disk.exists(`${from.directory}/${seq}`) ? from : undefined;
  }

  /** Reads entry `seq` of an epoch. `undefined`: the log goes on elsewhere, and the next read will find it. */
  #load(at: Head, seq: number): Head | undefined {
    const path = `${at.directory}/${seq}`;
    const text = disk.read(path);
    if (text === undefined) return undefined;
    const { format, boot } = at.epoch;
    // A power cut leaves zeros, and no holder survives it. In this boot zeros are foreign.
    const lost = isBlank(text) && (format === 1 || boot === "" || boot !== thisProcess().boot);
    const entry: Entry = lost ? survivors(at.directory, at.epoch, seq) : parseEntry(path, text, format);
    if (entry.kind === "state") return headAfter(at, seq, entry, false);
    if (entry.kind === "lease") return headAfter(at, seq, heldBy(entry, ...fencesOf(at.epoch, seq)), true);
    if (entry.kind === "epoch") {
      if (finishEpoch(at.incarnation, entry.id)) retireEpoch(this.#options.paths, at.directory, seq);
      return undefined;
    }
    this.#remove(at.incarnation);
    return undefined;
  }

  #make(): void {
    const { paths } = this.#options;
    if (!disk.exists(paths.trash) || !disk.exists(paths.locks)) {
      prepareDirectory(paths, true);
      this.#options.restored();
    }
    makeLock(paths, this.#path, newEpoch(this.name, 1, this.#firstRange(), FREE));
  }

  /** A head that another entry can follow. An epoch that is full, or of another boot, is followed by a new one. */
  #withRoom(head: Head): Head | undefined {
    const { entriesMax, clock } = this.#options;
    const { epoch, seq, state, incarnation } = head;
    if (seq < entriesMax && epoch.boot === thisProcess().boot) return head;
    const since = head.plain ? disk.times(head.directory)?.mtimeMs : undefined;
    const holders = state.holders.map((holder) => ({ ...holder, sinceWallMs: holder.sinceWallMs ?? since }));
    const range = nextRange(epoch, seq, entriesMax, clock.wall());
    const outcome = carried(clock, state.outcome);
    const next = newEpoch(this.name, epochNumber(epoch.id) + 1, range, { ...state, holders, forced: [], outcome });
    const aside = join(incarnation, `n${next.id}`);
    if (!tryMkdirIn(aside)) return this.#forget();
    let chosen = false;
    try {
      if (!tryCreateIn(join(aside, "0"), writeEntry(next), outcome !== undefined)) return this.#forget();
      const linked = epoch.format === next.format && tryLink(join(head.directory, FREE_FILE), join(aside, FREE_FILE));
      if (linked !== "linked") makeFreeFile(aside);
      if (outcome !== undefined) trySyncDirectory(aside);
      const last = join(head.directory, String(seq + 1));
      chosen = tryLink(join(aside, "0"), last) === "linked" && entryExists(last);
    } finally {
      if (!chosen) discardEpoch(aside);
    }
    if (!chosen) return this.#forget();
    if (finishEpoch(incarnation, next.id)) {
      if (outcome !== undefined) trySyncDirectory(incarnation);
      retireEpoch(this.#options.paths, head.directory, seq + 1);
    }
    const directory = join(incarnation, `e${next.id}`);
    return { incarnation, directory, epoch: next, seq: 0, state: next.state, plain: false };
  }

  #firstRange(): FenceRange {
    return firstRange(this.#options.clock.wall(), fenceFloor(this.#options.paths.floor));
  }

  #forget(): undefined {
    this.#head = undefined;
  }

  /** The incarnation's name is used once, so a late removal cannot hit a lock that was made again. */
  #remove(incarnation: string): void {
    const rest = join(this.#options.paths.trash, freshName());
    if (tryRename(incarnation, rest)) discard(rest);
    tryRmdir(this.#path);
  }
}

/** Field by field: a spread took a microsecond of each cycle. */
function headAfter({ incarnation, epoch, directory }: Head, seq: number, state: LockState, plain: boolean): Head {
  return { incarnation, epoch, directory, seq, state, plain };
}

/** The value that the state before named, and this one does not, is not needed any more. */
function dropValue({ incarnation, state: before }: Head, { outcome }: LockState): void {
  if (before.outcome !== undefined && before.outcome.file !== outcome?.file)
    discardValue(incarnation, before.outcome.file);
}

function stateOf(next: Next, fence: number, run: number): LockState {
  if ("facts" in next) {
    next.announce?.(fence, run);
    return heldBy(next.facts, fence, run);
  }
  return "free" in next ? FREE : next.state(fence, run);
}

export function isHead(result: Head | string | undefined): result is Head {
  return typeof result === "object";
}
