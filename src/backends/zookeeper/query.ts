/** Reads without changes: which locks there are, their holders and waiters, and the force releases. */
import type { Forced, Holding, LockState, Mode, Snapshot, Waiting } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { NodeData } from "./client/operations.ts";
import { type Contender, holdersOf, inOrder, parseContender } from "./contenders.ts";
import { type NamePaths, SEMAPHORE } from "./paths.ts";
import { type ClaimRecord, isClaim, readClaim, readForced } from "./node-data.ts";

/** How many locks are read at once. */
const BATCH = 100;
/** Where names are paths, locks may be at any depth: a larger tree than this is not searched to its end. */
const NODES_MAX = 10_000;

const NOTHING: Snapshot = { held: [], pending: [], forced: [] };

/** A contender's node with its data. */
export interface ContenderNode {
  readonly path: string;
  readonly mode: Mode;
  readonly record: ClaimRecord;
  readonly isOurs: boolean;
  readonly fence: bigint;
  readonly sinceMs: number;
}

export async function snapshot(client: ZooKeeperClient, paths: NamePaths, prefix: string): Promise<Snapshot> {
  // Requested together: our server catches up with the leader before it lists.
  const [, locks] = await Promise.all([client.sync("/"), findLocks(client, paths, prefix)]);
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

/** One lock, read after our server has caught up with the leader. */
export async function inspect(client: ZooKeeperClient, name: string, path: string): Promise<LockState> {
  const [, state] = await Promise.all([client.sync(path), snapshotOf(client, name, path)]);
  return state;
}

/** The holders of the lock at `path`, as far as the nodes show. */
export async function readHolders(client: ZooKeeperClient, path: string): Promise<readonly ContenderNode[]> {
  const children = await list(client, path);
  const queued = await readAll(client, path, holdersOf(inOrder(children)));
  if (!children.includes(SEMAPHORE.leases)) return queued;
  const leases = `${path}/${SEMAPHORE.leases}`;
  const held = await readAll(client, leases, inOrder(await list(client, leases)));
  return [...queued, ...held.slice(0, limitOf(held))];
}

/** A holder for people: never for decisions. */
function toHolding(name: string, node: ContenderNode): Holding {
  const { mode, record, fence } = node;
  const { limit, holder, ttlMs, meta, id, local, keptUntilMs } = record;
  return {
    name,
    mode,
    limit,
    holder,
    fence,
    // ZooKeeper records when a node was made, not when its claim was granted; by the leader's wall clock.
    heldMs: agoMs(node.sinceMs),
    remainingMs: keptUntilMs === undefined ? ttlMs : Math.max(0, keptUntilMs - Date.now()),
    meta,
    ...(id && { id }),
    ...(local && { local }),
    ...(keptUntilMs !== undefined && { remainder: "minHold" }),
  };
}

/** The holders at these paths, for a refusal's message. What cannot be read is left out. */
export async function readHoldings(
  client: ZooKeeperClient,
  name: string,
  paths: readonly string[],
): Promise<readonly Holding[]> {
  const nodes = await Promise.all(paths.map((path) => readContender(client, path))).catch(() => []);
  return nodes.flatMap((node) => (node === undefined ? [] : [toHolding(name, node)]));
}

/** Reads one contender's node; `undefined` if it is gone. */
async function readContender(client: ZooKeeperClient, path: string): Promise<ContenderNode | undefined> {
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
  const nodes = await readAll(client, path, order);
  const first = holdersOf(order).length;
  const held = nodes.slice(0, first).map((node) => toHolding(name, node));
  const pending = nodes
    .slice(first)
    .filter(queues)
    .map((node, index) => toWaiting(name, node, index));
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
  const [leases, queue] = await Promise.all(
    [SEMAPHORE.leases, SEMAPHORE.queue].map(async (part) => {
      const parent = `${path}/${part}`;
      return readAll(client, parent, inOrder(await list(client, parent)));
    }),
  );
  const held = (leases ?? []).slice(0, limitOf(leases ?? []));
  const holding = new Set(held.map(({ path: at }) => claimPart(at)));
  // A claim that has just got its lease may still be in the queue.
  const waiting = (queue ?? []).filter((node) => queues(node) && !holding.has(claimPart(node.path)));
  return {
    held: held.map((node) => toHolding(name, node)),
    pending: waiting.map((node, index) => toWaiting(name, node, index)),
    forced: [],
  };
}

/** The limit that our nodes contain; Curator's don't, and then every lease node counts as held. */
function limitOf(leases: readonly ContenderNode[]): number {
  return leases.find(({ isOurs }) => isOurs)?.record.limit ?? Infinity;
}

function claimPart(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.replace(/-(?:lock|lease)--?\d{10}$/, "");
}

function toWaiting(name: string, { mode, record, sinceMs, fence: order }: ContenderNode, index: number): Waiting {
  const { limit, holder, meta, id, local } = record;
  const [waitingMs, position] = [agoMs(sinceMs), index + 1];
  return { name, mode, limit, holder, waitingMs, position, meta, order, ...(id && { id }), ...(local && { local }) };
}

/** A try that is being refused waits for nothing. */
function queues({ path }: ContenderNode): boolean {
  return parseContender(path.slice(path.lastIndexOf("/") + 1))?.isTry !== true;
}

/** By wall clocks, ours and the leader's: good enough to read, never to decide. */
function agoMs(wallMs: number): number {
  return Math.max(0, Date.now() - wallMs);
}

async function readAll(
  client: ZooKeeperClient,
  parent: string,
  order: readonly Contender[],
): Promise<readonly ContenderNode[]> {
  const nodes = await Promise.all(order.map(({ name }) => readContender(client, `${parent}/${name}`)));
  return nodes.filter((node) => node !== undefined);
}

async function findLocks(
  client: ZooKeeperClient,
  paths: NamePaths,
  prefix: string,
): Promise<readonly { readonly name: string; readonly path: string }[]> {
  const { parent: root, deep } = paths.roots(prefix);
  const found: { name: string; path: string }[] = [];
  const open = [root];
  for (let listed = 0; open.length > 0 && listed < NODES_MAX; listed++) {
    const parent = open.shift() as string;
    for (const child of await list(client, parent)) {
      const name = isPartOfLock(child) && deep ? undefined : paths.name(parent, child);
      if (name === undefined || (deep && name === "/zookeeper")) continue;
      if (name.startsWith(prefix)) found.push({ name, path: paths.path(name) });
      if (deep) open.push(name);
    }
  }
  return found;
}

function isPartOfLock(child: string): boolean {
  return child === SEMAPHORE.leases || child === SEMAPHORE.queue || parseContender(child) !== undefined;
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
