/**
 * What query() and inspect() show: the store's entries, and in place of what this process wrote there of itself, its own requests as
 * they are now. Loaded by the first of these calls.
 */
import type { LockHolder, LockSnapshot, LocksSnapshot, OutcomeFacts } from "./api.ts";
import { askStore } from "./ask-store.ts";
import type { Claim, Holding, KeptOutcome, Snapshot, Waiting } from "../contract/backend.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import type { Engine } from "./engine.ts";
import type { LocalQueue } from "./local-queue.ts";
import type { QuerySpec } from "./options.ts";
import type { Request } from "./request.ts";
import { checkedSnapshot, checkedState } from "./snapshot.ts";
import { withStored } from "./stored-snapshot.ts";

export async function query(engine: Engine, prefix: string, asked: QuerySpec): Promise<LocksSnapshot> {
  const { backend } = engine;
  const isMeant: Meant = (name) => name.startsWith(prefix);
  const [found, ours] = await looking(engine, isMeant, () =>
    askStore(engine, "query()", asked, () => backend.query(prefix)),
  );
  const stored = checkedSnapshot(backend.name, "query", found);
  return withStored(jsonSafe(draw(engine, stored, isMeant, ours)), { backend: backend.name, snapshot: stored });
}

export async function inspect(engine: Engine, name: string, asked: QuerySpec): Promise<LockSnapshot> {
  const { backend } = engine;
  const isMeant: Meant = (one) => one === name;
  const [found, ours] = await looking(engine, isMeant, () =>
    askStore(engine, "inspect()", asked, () => backend.inspect(name), name),
  );
  const state = checkedState(backend.name, found);
  const drawn = draw(engine, state, isMeant, ours);
  const { quarantineMs, outcome } = state;
  const limit = (drawn.held[0] ?? drawn.pending[0])?.limit;
  return jsonSafe({ name, limit, ...drawn, quarantineMs, outcome: outcome && factsOf(outcome) });
}

type Drawn = Omit<LocksSnapshot, "toJSON">;

type Ids = ReadonlySet<string | undefined>;

type Meant = (name: string) => boolean;

/**
 * The answer, and the ids of all claims of this process that may be in it: what the store shows of them may be over by then. Those that
 * hold or wait when it is asked, those that were lost or are being taken back, and those that are made meanwhile.
 */
async function looking<T>(engine: Engine, isMeant: Meant, ask: () => Promise<T>): Promise<[T, Ids]> {
  const { parts, releases } = engine;
  const ids = new Set([...releases.claims, ...Array.from(releases.lost, ({ claim }) => claim)].map(({ id }) => id));
  for (const { holds, waiting } of engine.queues(isMeant)) {
    for (const { claim } of holds) ids.add(claim.id);
    for (const id of waiting.claimIds) ids.add(id);
  }
  const note = ({ id, name }: Claim): void => void (isMeant(name) && ids.add(id));
  parts.looks.add(note);
  try {
    return [await ask(), ids];
  } finally {
    parts.looks.delete(note);
  }
}

function draw(engine: Engine, { held, pending, forced }: Snapshot, isMeant: Meant, ours: Ids): Drawn {
  const own = new Map(engine.queues(isMeant).map((queue) => [queue.name, queue]));
  const wallMs = engine.clock.wall();
  const stored = new Map<string, Waiting[]>();
  for (const one of pending) {
    const all = stored.get(one.name);
    if (all === undefined) stored.set(one.name, [one]);
    else all.push(one);
  }
  for (const name of own.keys()) if (!stored.has(name)) stored.set(name, []);
  const granted: Ids = new Set(held.map(({ id }) => id));
  const waiting = Array.from(stored, ([name, all]) => inOrder(engine, all, waitingIn(own.get(name), granted), ours));
  return {
    held: held.map((holding) => {
      const hold = own.get(holding.name)?.holds.find(({ firstFence }) => firstFence === holding.fence);
      return shownHolding(holding, wallMs, hold?.leases.length, ours, hold?.isIdle === true);
    }),
    pending: waiting.flat().map(({ entry, waiters }) => {
      const { local: _, order: _order, ...rest } = entry;
      return jsonSafe({ ...rest, sinceMs: wallMs - entry.waitingMs, processWaiters: waiters });
    }),
    forced: forced.map(jsonSafe),
  };
}

/** `users`: of a lease of this process. Those who wait behind it here are listed themselves. */
function shownHolding(
  { local, ...holding }: Holding,
  wallMs: number,
  users: number | undefined,
  ours: Ids,
  lingering: boolean,
): LockHolder {
  const processHolders = users ?? count(local?.users);
  // Behind what is left of a lease none waits: they have claims of their own by now, or are gone.
  const isListed = users !== undefined || ours.has(holding.id) || holding.remainder !== undefined;
  const processWaiters = isListed ? 0 : count(local?.waiters);
  return jsonSafe({
    ...holding,
    sinceMs: wallMs - holding.heldMs,
    processHolders: lingering ? 0 : Math.max(1, processHolders),
    processWaiters,
    ...(lingering && { lingering }),
  });
}

interface Placed {
  readonly entry: Waiting;
  readonly waiters: number;
}

/** Without those whose claims the store shows as holders: their grants are on the way. */
function waitingIn(queue: LocalQueue | undefined, granted: Ids): LocalQueue["waiting"] {
  const { requests, claimIds } = queue?.waiting ?? { requests: [], claimIds: [] };
  return {
    requests: requests.filter((_, at) => !granted.has(claimIds[at] ?? "")),
    claimIds: claimIds.filter((id) => !granted.has(id)),
  };
}

/**
 * Those who wait for one lock, in the order in which they are likely to be served: who waits here behind a lease of this process gets
 * that in memory, before the store is asked; who waits behind a claim of this process goes where that is.
 */
function inOrder(
  engine: Engine,
  found: readonly Waiting[],
  { requests, claimIds }: LocalQueue["waiting"],
  ours: Ids,
): readonly Placed[] {
  const own = requests.map((request, at) => ownEntry(engine, request, claimIds[at]));
  const isOwn = ({ id }: Waiting): boolean => id !== undefined && claimIds.includes(id);
  const stored = found.filter((one) => isOwn(one) || !ours.has(one.id));
  const lastOwn = stored.findLastIndex(isOwn);
  const placed: Placed[] = claimIds.length === 0 ? own.splice(0) : [];
  for (const [at, entry] of stored.entries()) {
    const mine = isOwn(entry) ? own.shift() : undefined;
    placed.push(mine ?? { entry, waiters: count(entry.local?.waiters) });
    if (at === lastOwn) placed.push(...own.splice(0));
  }
  placed.push(...own);
  return placed.map(({ entry, waiters }, at) => ({ entry: { ...entry, position: at + 1 }, waiters }));
}

function ownEntry({ clock, holder }: Engine, request: Request, id: string | undefined): Placed {
  const { mode, limit, meta } = request.options;
  const waitingMs = clock.now() - request.enteredMs;
  return { entry: { name: request.queue.name, mode, limit, holder, waitingMs, position: 0, meta, id }, waiters: 0 };
}

function factsOf({ value, fence, holder, ageMs, remainingMs }: KeptOutcome): OutcomeFacts {
  return jsonSafe({ fence, holder: clipped(holder, HOLDER_MAX), ageMs, remainingMs, bytes: Buffer.byteLength(value) });
}

/** Another process wrote it. */
function count(written: unknown): number {
  return Number.isSafeInteger(written) && (written as number) > 0 ? (written as number) : 0;
}

/** A bigint cannot be written as JSON: fences become strings. */
function jsonSafe<T extends object>(shown: T): T & { toJSON(): unknown } {
  return Object.defineProperty(shown, "toJSON", { value: toJson }) as T & { toJSON(): unknown };
}

function toJson(this: object): unknown {
  const fields = Object.entries(this).map(([field, value]) => [
    field,
    typeof value === "bigint" ? String(value) : value,
  ]);
  return Object.fromEntries(fields) as unknown;
}
