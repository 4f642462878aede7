/**
 * The truth about one lock: a log of hard links. An entry is a file linked to the next number in the epoch's directory,
 * which exactly one process can do: each change of a lock's state is one atomic compare-and-swap. The newest entry is
 * the state. Nothing is ever deleted from a live epoch, so that a slow process cannot make a number a second time.
 *
 * An epoch ends with an entry that names the next one (it is the next one's first entry). The next is prepared aside under
 * a name of its own, and gets its final name only after that entry was made, so that of several that were prepared only
 * one ever becomes an epoch. Then the old directory is renamed away: whoever still writes to it gets ENOENT.
 */
import { join } from "node:path";
import { discard } from "./discard.ts";
import { createFile, disk, remove, tryLink, tryRename, tryRmdir } from "./disk.ts";
import {
  checkStrangers,
  discardEpoch,
  enterEpoch,
  epochId,
  epochNumber,
  fencesOf,
  findEpoch,
  FREE_FILE,
  isInPlace,
  isOfThisBoot,
  makeFree,
  newestAfter,
  retireEpoch,
  tryMkdirIn,
} from "./epochs.ts";
import { floorOf, raiseFloor } from "./floor.ts";
import { ForeignError } from "./foreign.ts";
import { restorePlace } from "./ground.ts";
import { ownLife } from "./life.ts";
import type { Moment } from "./moment.ts";
import { toDirectory } from "./names.ts";
import { firstNumbers, nextNumbers, type Numbers } from "./numbers.ts";
import { freshName, type Place } from "./place.ts";
import {
  type Entry,
  type Epoch,
  type ForcedRecord,
  FREE,
  isBlank,
  type LockState,
  type OwnerFacts,
  parseEntry,
  parseEpoch,
  writeEntry,
} from "./records.ts";
import { heldBy } from "./rules.ts";
import { tooBusy } from "./trouble.ts";

const TRIES_MAX = 10_000;

/** The newest entry, as it was when somebody looked. */
export interface Head {
  /** The directory of the lock's present incarnation. */
  readonly home: string;
  readonly epoch: Epoch;
  readonly directory: string;
  readonly seq: number;
  readonly state: LockState;
  /** The entry is the holder's owner file itself, so that its times are the lease's. */
  readonly plain: boolean;
}

export type Told = (fence: number, run: number) => void;
/** The next entry: a holder's owner file, `free`, or a state written for it. It learns its fence and run just before it is made. */
export type Next =
  | { readonly owner: OwnerFacts; readonly source: string; readonly told?: Told | undefined }
  | { readonly free: true }
  | { readonly state: (fence: number, run: number) => LockState };

export interface LogOptions {
  readonly place: Place;
  readonly moment: Moment;
  readonly entriesMax: number;
  /** Keeps what a state says about forced releases, before the state is superseded. */
  keepForced(records: readonly ForcedRecord[]): void;
  /** The directory vanished and was made anew. */
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
    this.#path = join(options.place.locks, this.directory);
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
      // So many listings in a row without any epoch were not overtaken.
      if (from === undefined && ++missed > TRIES_MAX / 10)
        throw new ForeignError(this.#path, "there is no epoch in it");
    }
    throw tooBusy(this.name);
  }

  /**
   * Adds the next entry if `head` is still the newest. `undefined`: it is not, or the source is gone.
   * `"unseen"`: it may have been, but the epoch has ended since: look whether the next one has it.
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
    // A lone holder that frees its lock needs no look: if anybody went on from its entry, it had ended before.
    if (outcome === "linked" && !("free" in next && at.plain) && !isInPlace(path)) return this.#forget() ?? "unseen";
    this.#head = outcome === "linked" ? { ...at, seq, state, plain: "owner" in next } : undefined;
    // A power cut can take the free file. Whoever misses it makes it again.
    if (outcome === "gone" && "free" in next && disk.exists(at.directory)) makeFree(at.directory);
    // What exists and cannot be found is a link that leads nowhere: nobody of ours makes one.
    if (outcome === "exists" && !disk.exists(path)) disk.read(path);
    return this.#head;
  }

  #link(next: Next, state: LockState, free: string, path: string): ReturnType<typeof tryLink> {
    if ("owner" in next) return tryLink(next.source, path);
    if ("free" in next) return tryLink(free, path);
    const source = join(this.#options.place.trash, freshName());
    createFile(source, writeEntry(state));
    const outcome = tryLink(source, path);
    remove(source);
    return outcome;
  }

  /** Ends a lock that nobody uses: its last entry says so, then its directory goes. `false`: somebody uses it. */
  bury(head: Head): boolean {
    if (head.state.forced.length > 0) this.#options.keepForced(head.state.forced);
    const source = join(this.#options.place.trash, freshName());
    const [after] = fencesOf(head.epoch, head.seq + 1);
    raiseFloor(this.#options.place, after);
    createFile(source, writeEntry({ kind: "gone" }));
    const path = join(head.directory, String(head.seq + 1));
    const done = tryLink(source, path) === "linked" && isInPlace(path);
    remove(source);
    this.#head = undefined;
    if (done) this.#remove(head.home);
    return done;
  }

  /** Finds the newest epoch. `undefined`: the directory changed while it was read. */
  #find(): Head | "absent" | undefined {
    const found = findEpoch(this.#path);
    if (typeof found !== "object") return found;
    const { home, directory, id, text } = found;
    const epoch = isBlank(text) && !isOfThisBoot(id) ? this.#lost(id) : parseEpoch(join(directory, "0"), text);
    return { home, directory, epoch, seq: 0, state: epoch.state, plain: false };
  }

  /** A power cut took what the first entry said. Its boot is unknown, so that the next append starts a new epoch. */
  #lost(id: string): Epoch {
    return { ...this.#epoch(1, this.#firstNumbers(), FREE), id, boot: "lost" };
  }

  #follow(from: Head): Head | undefined {
    const seq = newestAfter(from.directory, from.seq);
    if (seq > from.seq) return this.#load(from, seq);
    return disk.exists(`${from.directory}/${seq}`) ? from : undefined;
  }

  /** Reads entry `seq` of an epoch. `undefined`: the log goes on elsewhere, and the next look will find it. */
  #load(at: Head, seq: number): Head | undefined {
    const path = `${at.directory}/${seq}`;
    const text = disk.read(path);
    if (text === undefined) return undefined;
    const { format, boot } = at.epoch;
    // Zeros are what a power cut leaves: whoever held the lock is gone with the power. In this boot they are nobody's.
    const lost = isBlank(text) && (format === 1 || boot === "" || boot !== ownLife().boot);
    const entry: Entry = lost ? FREE : parseEntry(path, text, format);
    if (entry.kind === "state") return { ...at, seq, state: entry, plain: false };
    if (entry.kind === "owner") {
      return { ...at, seq, plain: true, state: heldBy(entry, ...fencesOf(at.epoch, seq)) };
    }
    if (entry.kind === "epoch") {
      if (enterEpoch(at.home, entry.id)) retireEpoch(this.#options.place, at.directory, seq);
      return undefined;
    }
    this.#remove(at.home);
    return undefined;
  }

  #make(): void {
    const { place } = this.#options;
    const aside = join(place.trash, freshName());
    if (!disk.exists(place.trash) || !disk.exists(place.locks)) {
      restorePlace(place, true);
      this.#options.restored();
    }
    const epoch = this.#epoch(1, this.#firstNumbers(), FREE);
    const home = join(aside, freshName());
    const directory = join(home, `e${epoch.id}`);
    try {
      for (const path of [aside, home, directory]) disk.mkdir(path);
      createFile(join(directory, "0"), writeEntry(epoch));
      makeFree(directory);
      // Fails if somebody made the lock meanwhile; takes the place of an empty directory, which a removed lock may leave.
      if (tryRename(aside, this.#path)) return;
      if (process.platform === "win32") tryRmdir(this.#path);
      checkStrangers(this.#path);
    } finally {
      // Nothing is left of it under this name if it became the lock.
      discardEpoch(directory);
      for (const path of [home, aside]) tryRmdir(path);
    }
  }

  /** A head that another entry can follow: an epoch that is full, or of another boot, is left for a new one. */
  #withRoom(head: Head): Head | undefined {
    const { entriesMax, moment } = this.#options;
    const { epoch, seq, state, home } = head;
    if (seq < entriesMax && epoch.boot === ownLife().boot) return head;
    const since = head.plain ? disk.times(head.directory)?.mtimeMs : undefined;
    const holders = state.holders.map((holder) => ({ ...holder, sinceWallMs: holder.sinceWallMs ?? since }));
    const numbers = nextNumbers(epoch, seq, entriesMax, moment.wallMs());
    const next = this.#epoch(epochNumber(epoch.id) + 1, numbers, { ...state, holders, forced: [] });
    const aside = join(home, `n${next.id}`);
    if (!tryMkdirIn(aside)) return this.#forget();
    let chosen = false;
    try {
      createFile(join(aside, "0"), writeEntry(next));
      const linked = epoch.format === next.format && tryLink(join(head.directory, FREE_FILE), join(aside, FREE_FILE));
      if (linked !== "linked") makeFree(aside);
      const last = join(head.directory, String(seq + 1));
      chosen = tryLink(join(aside, "0"), last) === "linked" && isInPlace(last);
    } finally {
      if (!chosen) discardEpoch(aside);
    }
    if (!chosen) return this.#forget();
    if (enterEpoch(home, next.id)) retireEpoch(this.#options.place, head.directory, seq + 1);
    return { home, directory: join(home, `e${next.id}`), epoch: next, seq: 0, state: next.state, plain: false };
  }

  #firstNumbers(): Numbers {
    const { place, moment } = this.#options;
    return firstNumbers(moment.wallMs(), floorOf(place));
  }

  #forget(): undefined {
    this.#head = undefined;
  }

  /** The incarnation's name is used once, so that a late remover cannot hit a lock that was made anew. */
  #remove(home: string): void {
    const rest = join(this.#options.place.trash, freshName());
    if (tryRename(home, rest)) discard(rest);
    tryRmdir(this.#path);
  }

  #epoch(number: number, numbers: Numbers, state: LockState): Epoch {
    return {
      kind: "epoch",
      format: 2,
      id: epochId(number),
      name: this.name,
      ...numbers,
      boot: ownLife().boot,
      state,
    };
  }
}

function stateOf(next: Next, fence: number, run: number): LockState {
  if ("owner" in next) next.told?.(fence, run);
  if ("owner" in next) return heldBy(next.owner, fence, run);
  return "free" in next ? FREE : next.state(fence, run);
}

export function isHead(result: Head | string | undefined): result is Head {
  return typeof result === "object";
}
