/** The rows of the table: made from what the store shows, and compared with those before, so that only what changed is sent. */
import type { LockHolder, LocksSnapshot, LockWaiter } from "../core/api.ts";
import { countWaiters, grouped, hostAndPid } from "../core/read-snapshot.ts";
import type { HolderView, LockRow, Meta, WaiterView } from "./wire.ts";

/** How many who wait are in a row of the table. */
const WAITERS_SHOWN = 5;
/** How many are on the page of a lock. */
const WAITERS_MAX = 500;
/** How many holders are shown of one lock: more would make a row as long as a table. */
const HOLDERS_MAX = 200;
/** Answers take their time, and not always the same: a smaller change of an instant is none. */
const TOLERANCE_MS = 400;

/** A row with all who wait. */
export interface FullRow extends LockRow {
  readonly all: readonly WaiterView[];
}

export interface Marks {
  readonly quarantines: ReadonlyMap<string, number>;
  readonly deadlocked: ReadonlySet<string>;
}

export interface Changes {
  readonly changed: readonly FullRow[];
  readonly gone: readonly string[];
}

export class Rows {
  #rows: Map<string, FullRow> = new Map();

  get all(): ReadonlyMap<string, FullRow> {
    return this.#rows;
  }

  /** `nowMs`: when the store answered. */
  look(snapshot: LocksSnapshot, nowMs: number, marks: Marks): Changes {
    const [held, pending] = [grouped(snapshot.held), grouped(snapshot.pending)];
    const rows = new Map<string, FullRow>();
    const changed: FullRow[] = [];
    for (const name of new Set([...held.keys(), ...pending.keys()])) {
      const before = this.#rows.get(name);
      const made = toRow(name, held.get(name) ?? [], pending.get(name) ?? [], before, nowMs, marks);
      const isSame = before !== undefined && same(before, made);
      rows.set(name, isSame ? before : made);
      if (!isSame) changed.push(made);
    }
    const gone = [...this.#rows.keys()].filter((name) => !rows.has(name));
    this.#rows = rows;
    return { changed, gone };
  }
}

/** As it is sent: who waits further behind is on the page of the lock. */
export function brief({ all: _all, ...row }: FullRow): LockRow {
  return row;
}

function toRow(
  name: string,
  held: readonly LockHolder[],
  pending: readonly LockWaiter[],
  before: FullRow | undefined,
  nowMs: number,
  { quarantines, deadlocked }: Marks,
): FullRow {
  const known = byKey(before?.holders ?? []);
  const waited = byKey(before?.all ?? []);
  const holders = held.slice(0, HOLDERS_MAX).map((one) => toHolder(one, known, nowMs));
  const all = pending.slice(0, WAITERS_MAX).map((one) => toWaiter(one, waited, nowMs));
  const { mode, limit } = held[0] ?? (pending[0] as LockWaiter);
  return {
    name,
    mode,
    limit,
    holders,
    waiters: all.slice(0, WAITERS_SHOWN),
    all,
    waiting: countWaiters({ held, pending }),
    quarantineEndsMs: quarantines.get(name),
    deadlocked: deadlocked.has(name) ? true : undefined,
  };
}

type Known<T> = (key: string) => T | undefined;

/** Nearly all locks have one holder: what a Map costs is most of a row. */
function byKey<T extends { readonly key: string }>(list: readonly T[]): Known<T> {
  if (list.length <= 4) return (key) => list.find((one) => one.key === key);
  const found = new Map(list.map((one) => [one.key, one]));
  return (key) => found.get(key);
}

function toHolder(one: LockHolder, known: Known<HolderView>, nowMs: number): HolderView {
  const key = one.id ?? `${one.fence} ${one.holder}`;
  const before = known(key);
  const isBounded = Number.isFinite(one.remainingMs);
  const endsMs = isBounded ? steady(before?.endsMs, nowMs + one.remainingMs) : null;
  const fullMs = isBounded ? Math.max(before?.fullMs ?? 0, Math.round(one.remainingMs)) : null;
  const wasRenewed = before?.renewed === true;
  const wentUp = endsMs !== null && endsMs > (before?.endsMs ?? Infinity);
  const { host, pid } = hostAndPid(one.holder);
  // Every field, in one order: an object that is put together from parts costs ten times as much.
  return {
    holder: one.holder,
    host,
    pid,
    app: one.meta["app"],
    version: one.meta["version"],
    key,
    fence: String(one.fence),
    mode: one.mode,
    sinceMs: steady(before?.sinceMs, nowMs - one.heldMs),
    endsMs,
    fullMs,
    meta: one.meta,
    users: one.processHolders,
    behind: one.processWaiters,
    remainder: one.remainder,
    renewed: wasRenewed || wentUp,
    late: wasRenewed && fullMs !== null && one.remainingMs < fullMs / 2 && one.remainder === undefined,
  };
}

function toWaiter(one: LockWaiter, known: Known<WaiterView>, nowMs: number): WaiterView {
  const key = one.id ?? `${one.holder} ${one.position}`;
  const { host, pid } = hostAndPid(one.holder);
  return {
    holder: one.holder,
    host,
    pid,
    app: one.meta["app"],
    version: one.meta["version"],
    key,
    mode: one.mode,
    position: one.position,
    sinceMs: steady(known(key)?.sinceMs, nowMs - one.waitingMs),
    behind: one.processWaiters,
    meta: one.meta,
  };
}

function steady(before: number | null | undefined, nowMs: number): number {
  const rounded = Math.round(nowMs);
  return typeof before === "number" && Math.abs(before - rounded) < TOLERANCE_MS ? before : rounded;
}

function same(a: FullRow, b: FullRow): boolean {
  return (
    a.mode === b.mode &&
    a.limit === b.limit &&
    a.waiting === b.waiting &&
    a.quarantineEndsMs === b.quarantineEndsMs &&
    a.deadlocked === b.deadlocked &&
    a.holders.length === b.holders.length &&
    a.all.length === b.all.length &&
    a.holders.every((one, at) => sameHolder(one, b.holders[at]!)) &&
    a.all.every((one, at) => sameWaiter(one, b.all[at]!))
  );
}

function sameHolder(a: HolderView, b: HolderView): boolean {
  return (
    a.key === b.key &&
    a.holder === b.holder &&
    a.fence === b.fence &&
    a.mode === b.mode &&
    a.sinceMs === b.sinceMs &&
    a.endsMs === b.endsMs &&
    a.fullMs === b.fullMs &&
    a.users === b.users &&
    a.behind === b.behind &&
    a.remainder === b.remainder &&
    a.renewed === b.renewed &&
    a.late === b.late &&
    sameMeta(a.meta, b.meta)
  );
}

function sameWaiter(a: WaiterView, b: WaiterView): boolean {
  return (
    a.key === b.key &&
    a.holder === b.holder &&
    a.mode === b.mode &&
    a.position === b.position &&
    a.sinceMs === b.sinceMs &&
    a.behind === b.behind &&
    sameMeta(a.meta, b.meta)
  );
}

function sameMeta(a: Meta, b: Meta): boolean {
  const fields = Object.keys(a);
  return fields.length === Object.keys(b).length && fields.every((field) => a[field] === b[field]);
}
