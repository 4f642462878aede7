/**
 * What query() and inspect() show: the store's entries, and in place of what this process wrote there of itself, its own requests as
 * they are now. Loaded by the first of these calls.
 */
import type { LockHolder, LockSnapshot, LocksSnapshot, OutcomeFacts } from "./api.ts";
import { askStore } from "./ask-store.ts";
import type { Holding, KeptOutcome, Snapshot, Waiting } from "../contract/backend.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import type { Engine } from "./engine.ts";
import type { LocalQueue } from "./local-queue.ts";
import type { QuerySpec } from "./options.ts";
import type { Request } from "./request.ts";
import { checkedSnapshot, checkedState } from "./snapshot.ts";

export async function query(engine: Engine, prefix: string, asked: QuerySpec): Promise<LocksSnapshot> {
  const { backend } = engine;
  const found = await askStore(engine, "query()", asked, () => backend.query(prefix));
  return jsonSafe(draw(engine, checkedSnapshot(backend.name, "query", found), (name) => name.startsWith(prefix)));
}

export async function inspect(engine: Engine, name: string, asked: QuerySpec): Promise<LockSnapshot> {
  const { backend } = engine;
  const found = await askStore(engine, "inspect()", asked, () => backend.inspect(name), name);
  const state = checkedState(backend.name, found);
  const drawn = draw(engine, state, (one) => one === name);
  const { quarantineMs, outcome } = state;
  const limit = (drawn.held[0] ?? drawn.pending[0])?.limit;
  return jsonSafe({ name, limit, ...drawn, quarantineMs, outcome: outcome && factsOf(outcome) });
}

type Drawn = Omit<LocksSnapshot, "toJSON">;

function draw(engine: Engine, { held, pending, forced }: Snapshot, isMeant: (name: string) => boolean): Drawn {
  const own = new Map(engine.queues(isMeant).map((queue) => [queue.name, queue]));
  const wallMs = engine.clock.wall();
  const names = new Set([...pending.map(({ name }) => name), ...own.keys()]);
  const waiting = [...names].flatMap((name) => {
    const stored = pending.filter((one) => one.name === name);
    return inOrder(engine, stored, own.get(name));
  });
  return {
    held: held.map((holding) => {
      const hold = own.get(holding.name)?.holds.find(({ firstFence }) => firstFence === holding.fence);
      return shownHolding(holding, wallMs, hold?.leases.length);
    }),
    pending: waiting.map(({ entry, waiters }) => {
      const { local: _, ...rest } = entry;
      return jsonSafe({ ...rest, sinceMs: wallMs - entry.waitingMs, processWaiters: waiters });
    }),
    forced: forced.map(jsonSafe),
  };
}

/** `users`: of a lease of this process. Those who wait behind it here are listed themselves. */
function shownHolding({ local, ...holding }: Holding, wallMs: number, users: number | undefined): LockHolder {
  const [processHolders, processWaiters] =
    users === undefined ? [count(local?.users), count(local?.waiters)] : [users, 0];
  return jsonSafe({
    ...holding,
    sinceMs: wallMs - holding.heldMs,
    processHolders: Math.max(1, processHolders),
    processWaiters,
  });
}

interface Placed {
  readonly entry: Waiting;
  readonly waiters: number;
}

/**
 * Those who wait for one lock, in the order in which they are likely to be served: who waits here behind a lease of this process gets
 * that in memory, before the store is asked; who waits behind a claim of this process goes where that is.
 */
function inOrder(engine: Engine, stored: readonly Waiting[], queue: LocalQueue | undefined): readonly Placed[] {
  const { requests, claimIds } = queue?.waiting ?? { requests: [], claimIds: [] };
  const own = requests.map((request, at) => ownEntry(engine, request, claimIds[at]));
  const isOwn = ({ id }: Waiting): boolean => id !== undefined && claimIds.includes(id);
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
