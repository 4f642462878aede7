/** Looking without touching: which locks there are, who holds them, who waits, and what was ended by force. */
import type { Forced, Holding, Mode, Snapshot, Waiting } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { NodeData } from "./client/operations.ts";
import { type Contender, holdersOf, inOrder, parseContender } from "./contenders.ts";
import { type Places, SEMAPHORE } from "./paths.ts";
import { type ClaimRecord, isClaim, readClaim, readForced } from "./node-data.ts";

/** How many locks are looked at in one go. */
const BATCH = 100;
/** Where names are paths, locks may lie at any depth: a tree larger than this is not searched to its end. */
const NODES_MOST = 10_000;

const NOTHING: Snapshot = { held: [], pending: [], forced: [] };

/** A contender's node as it was read. */
export interface Seen {
  readonly path: string;
  readonly mode: Mode;
  readonly record: ClaimRecord;
  readonly isOurs: boolean;
  readonly fence: bigint;
  readonly sinceMs: number;
}

export async function snapshot(client: ZooKeeperClient, places: Places, prefix: string): Promise<Snapshot> {
  // Asked in one go: the server that we talk to catches up with the leader before it lists.
  const [, locks] = await Promise.all([client.sync("/"), findLocks(client, places, prefix)]);
  const parts: Snapshot[] = [];
  for (let at = 0; at < locks.length; at += BATCH) {
    const batch = locks.slice(at, at + BATCH);
    parts.push(...(await Promise.all(batch.map((lock) => snapshotOf(client, lock.name, lock.path)))));
  }
  return {
    held: parts.flatMap(({ held }) => held),
    pending: parts.flatMap(({ pending }) => pending),
    forced: parts.flatMap(({ forced }) => forced),
  };
}

/** Those who hold the lock at `path`, as far as the nodes tell. */
export async function holders(client: ZooKeeperClient, path: string): Promise<readonly Seen[]> {
  const children = await list(client, path);
  const inLine = await readAll(client, path, holdersOf(inOrder(children)));
  if (!children.includes(SEMAPHORE.leases)) return inLine;
  const leases = `${path}/${SEMAPHORE.leases}`;
  const seen = await readAll(client, leases, inOrder(await list(client, leases)));
  return [...inLine, ...seen.slice(0, limitOf(seen))];
}

/** A holder for people: never for decisions. */
export function toHolding(name: string, seen: Seen): Holding {
  const { mode, record, fence } = seen;
  return {
    name,
    mode,
    limit: record.limit,
    holder: record.holder,
    fence,
    // ZooKeeper notes when a node was made, not when its claim's turn came; by the leader's wall clock.
    heldMs: agoMs(seen.sinceMs),
    remainingMs: record.ttlMs,
    meta: record.meta,
  };
}

/** Reads one contender's node; `undefined` if it has gone. */
export async function see(client: ZooKeeperClient, path: string): Promise<Seen | undefined> {
  const contender = parseContender(path);
  const node = await read(client, path);
  if (contender === undefined || node === undefined) return undefined;
  const { data, stat } = node;
  const record = readClaim(data);
  return { path, mode: contender.mode, record, isOurs: isClaim(data), fence: stat.czxid, sinceMs: stat.ctimeMs };
}

async function snapshotOf(client: ZooKeeperClient, name: string, path: string): Promise<Snapshot> {
  const [own, children] = await Promise.all([read(client, path), list(client, path)]);
  if (own === undefined) return NOTHING;
  const order = inOrder(children);
  const line = await readAll(client, path, order);
  const first = holdersOf(order).length;
  const held = line.slice(0, first).map((seen) => toHolding(name, seen));
  const pending = line.slice(first).map((seen, index) => toWaiting(name, seen, index));
  const forced = (readForced(own.data) ?? []).map(({ fence, by, reason, atMs }): Forced => ({
    name,
    fence: BigInt(fence),
    by,
    reason,
    agoMs: agoMs(atMs),
  }));
  if (!children.includes(SEMAPHORE.leases)) return { held, pending, forced };
  const semaphore = await semaphoreOf(client, name, path);
  return { held: [...held, ...semaphore.held], pending: [...pending, ...semaphore.pending], forced };
}

async function semaphoreOf(client: ZooKeeperClient, name: string, path: string): Promise<Snapshot> {
  const [leases, line] = await Promise.all(
    [SEMAPHORE.leases, SEMAPHORE.line].map(async (part) => {
      const parent = `${path}/${part}`;
      return readAll(client, parent, inOrder(await list(client, parent)));
    }),
  );
  const held = (leases ?? []).slice(0, limitOf(leases ?? []));
  const holding = new Set(held.map((seen) => claimPart(seen.path)));
  // Who has just got its lease may still be leaving the line.
  const waiting = (line ?? []).filter((seen) => !holding.has(claimPart(seen.path)));
  return {
    held: held.map((seen) => toHolding(name, seen)),
    pending: waiting.map((seen, index) => toWaiting(name, seen, index)),
    forced: [],
  };
}

/** The limit that our nodes tell; Curator's don't, and then every lease node counts as held. */
function limitOf(leases: readonly Seen[]): number {
  return leases.find(({ isOurs }) => isOurs)?.record.limit ?? Infinity;
}

function claimPart(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.replace(/-(?:lock|lease)--?\d{10}$/, "");
}

function toWaiting(name: string, { mode, record, sinceMs }: Seen, index: number): Waiting {
  const { limit, holder, meta } = record;
  return { name, mode, limit, holder, waitingMs: agoMs(sinceMs), position: index + 1, meta };
}

/** By wall clocks, ours and the leader's: good enough to read, never to decide. */
function agoMs(wallMs: number): number {
  return Math.max(0, Date.now() - wallMs);
}

async function readAll(client: ZooKeeperClient, parent: string, order: readonly Contender[]): Promise<readonly Seen[]> {
  const seen = await Promise.all(order.map(({ name }) => see(client, `${parent}/${name}`)));
  return seen.filter((one) => one !== undefined);
}

async function findLocks(
  client: ZooKeeperClient,
  places: Places,
  prefix: string,
): Promise<readonly { readonly name: string; readonly path: string }[]> {
  const { parent: root, deep } = places.roots(prefix);
  const found: { name: string; path: string }[] = [];
  const open = [root];
  for (let seen = 0; open.length > 0 && seen < NODES_MOST; seen++) {
    const parent = open.shift() as string;
    for (const child of await list(client, parent)) {
      const name = isPartOfLock(child) && deep ? undefined : places.name(parent, child);
      if (name === undefined || (deep && name === "/zookeeper")) continue;
      if (name.startsWith(prefix)) found.push({ name, path: places.path(name) });
      if (deep) open.push(name);
    }
  }
  return found;
}

function isPartOfLock(child: string): boolean {
  return child === SEMAPHORE.leases || child === SEMAPHORE.line || parseContender(child) !== undefined;
}

async function list(client: ZooKeeperClient, path: string): Promise<readonly string[]> {
  try {
    const { children } = await client.getChildren(path);
    return children;
  } catch (error) {
    if (hasCode(error, "NONODE")) return [];
    throw error;
  }
}

async function read(client: ZooKeeperClient, path: string): Promise<NodeData | undefined> {
  try {
    return await client.getData(path);
  } catch (error) {
    if (hasCode(error, "NONODE")) return undefined;
    throw error;
  }
}
