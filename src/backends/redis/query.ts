/** Reads without changing anything: who holds and waits (query, inspect), and which server this is (identify). */
import type { Forced, Holding, LockState, Snapshot, Waiting } from "../../contract/backend.ts";
import type { Connection, Primary } from "./connection.ts";
import { inspect as inspectScript, peek } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { toOutcome } from "./outcomes.ts";
import { aloneIn, toForced, toHolding, toWaiting } from "./records.ts";
import { toCount, unexpected } from "./replies.ts";
import { runScript, type Scripts } from "./scripts.ts";
import { FIELD, MARKER } from "./wire.ts";

const SCAN_COUNT = "512";
/** How long a lease that was ended by force is shown. */
export const FORCED_MS = 3_600_000;

/** What a server says about itself: for quorums, which reject two members that are the same server, and for people. */
export interface Identity {
  /** Changes at every start of the server. */
  readonly runId: string;
  readonly version: string;
  readonly role: "master" | "slave" | "sentinel";
  /** What happens when memory is full; only `noeviction` keeps locks. */
  readonly policy: string;
  readonly maxMemory: number;
  readonly cluster: boolean;
  readonly wallMs: number;
  readonly replicas: number;
  /** Replicas that must be connected for writes to be accepted; `undefined` if the server does not say. */
  readonly minReplicas: number | undefined;
  /** How long a replica may be silent and still count; `undefined` if the server does not say. */
  readonly minReplicasMaxLagMs: number | undefined;
  /** Whether writes are refused when replicas are missing, as INFO shows it. */
  readonly guardsWrites: boolean;
  /** The longest quarantine that any process asked of it, ms; `undefined`: none. */
  readonly quarantineMs: number | undefined;
  /** Whether data survive a restart: `none`, `rdb`, or the append-only file's fsync policy. */
  readonly persistence: string;
}

export async function query(connection: Connection, names: Names, start: string): Promise<Snapshot> {
  const held: Holding[] = [];
  const pending: Waiting[] = [];
  const forced: Forced[] = [];
  for (const primary of await connection.primaries()) {
    for await (const keys of scan(primary, globEscapePrefix(connection.keyPrefix) + names.glob(start))) {
      // SCAN returns keys with the client's own prefix.
      const bare = keys.map((key) => key.slice(connection.keyPrefix.length));
      const looks = await Promise.all(bare.map((key) => look(connection, key)));
      for (const [index, key] of bare.entries()) {
        const name = names.nameOf(key);
        const [now, ...fields] = looks[index] ?? [];
        if (name === undefined || !name.startsWith(start)) continue;
        const lock = readLock(name, toPairs(fields), Number(now));
        held.push(...lock.held);
        pending.push(...lock.pending);
        forced.push(...lock.forced);
      }
    }
  }
  return { held, pending, forced };
}

/** One lock, in one round trip. `quarantineMs`: of a quorum's member, which need not have asked for one by itself. */
export async function inspect(names: Names, scripts: Scripts, name: string, quarantineMs = 0): Promise<LockState> {
  const args = quarantineMs > 0 ? [String(quarantineMs)] : [];
  const reply = await scripts.run(inspectScript, names.lock(name), args).catch(scripts.explained(name));
  const [now, rest, ...fields]: unknown[] = Array.isArray(reply) ? reply : [];
  const [nowMs, restMs] = [toCount(now), toCount(rest)];
  if (nowMs === undefined || restMs === undefined) throw unexpected(name);
  const pairs = toPairs(fields);
  const outcome = toOutcome(pairs.find(([field]) => field === FIELD.outcome)?.[1], nowMs);
  return {
    ...readLock(name, pairs, nowMs),
    ...(restMs > 0 && { quarantineMs: restMs }),
    ...(outcome && { outcome }),
  };
}

/** Reads one lock's hash. Fields in another format are skipped. */
function readLock(name: string, fields: readonly [string, string][], nowMs: number): Snapshot {
  const held: Holding[] = [];
  const waiting: { waiter: Waiting; place: number }[] = [];
  const forced: Forced[] = [];
  for (const [field, value] of fields) {
    const rest = field.slice(1);
    if (field.startsWith(FIELD.holder) || field === FIELD.state) {
      const { id, record } = field === FIELD.state ? (aloneIn(value) ?? NOBODY) : { id: rest, record: value };
      const holding = toHolding(name, record, nowMs, id);
      if (holding !== undefined && holding.remainingMs > 0) held.push(holding);
    } else if (field.startsWith(FIELD.waiter)) {
      const waiter = toWaiting(name, value, nowMs, rest);
      if (waiter !== undefined) waiting.push(waiter);
    } else if (field.startsWith(FIELD.forced)) {
      const ended = toForced(name, rest, value, nowMs);
      if (ended !== undefined && ended.agoMs < FORCED_MS) forced.push(ended);
    }
  }
  held.sort((a, b) => (a.fence < b.fence ? -1 : 1));
  forced.sort((a, b) => b.agoMs - a.agoMs);
  waiting.sort((a, b) => a.place - b.place);
  const pending = waiting.map(({ waiter }, index) => ({ ...waiter, position: index + 1 }));
  return { held, pending, forced };
}

const NOBODY = { id: "", record: "" };

/** A key that is not a lock has nothing to show. */
async function look(connection: Connection, key: string): Promise<readonly unknown[]> {
  const reply = await runScript(connection, peek, [key], []).catch((error: unknown) => {
    if (error instanceof Error && error.message.includes("WRONGTYPE")) return [];
    throw error;
  });
  return Array.isArray(reply) ? reply : [];
}

async function* scan(primary: Primary, pattern: string): AsyncGenerator<readonly string[]> {
  let cursor = "0";
  const seen = new Set<string>();
  do {
    const reply = await primary.command(["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT]);
    if (!Array.isArray(reply) || !Array.isArray(reply[1])) throw new Error("unexpected reply to SCAN");
    cursor = String(reply[0]);
    // SCAN may return a key twice.
    const fresh = reply[1].map(String).filter((key) => !seen.has(key));
    fresh.forEach((key) => seen.add(key));
    if (fresh.length > 0) yield fresh;
  } while (cursor !== "0");
}

/** CONFIG GET comes as a flat list (RESP2), or as an object or Map (RESP3); a script's reply is always a list. */
function toPairs(reply: unknown): readonly [string, string][] {
  if (reply instanceof Map) return [...reply].map(([field, value]) => [String(field), String(value)]);
  if (Array.isArray(reply)) {
    const pairs: [string, string][] = [];
    for (let i = 0; i + 1 < reply.length; i += 2) pairs.push([String(reply[i]), String(reply[i + 1])]);
    return pairs;
  }
  if (typeof reply === "object" && reply !== null) return Object.entries(reply).map(([f, v]) => [f, String(v)]);
  return [];
}

function toMs(time: unknown): number {
  if (!Array.isArray(time)) throw new Error("unexpected reply to TIME");
  return Number(time[0]) * 1000 + Math.floor(Number(time[1]) / 1000);
}

function globEscapePrefix(prefix: string): string {
  return prefix.replace(/[*?[\]\\]/gu, String.raw`\$&`);
}

/**
 * Asks the primaries who they are, and takes the first answer, because one of them may hang. With the marker's key, also which quarantine
 * was asked of them.
 */
export async function identify(connection: Connection, marker?: string): Promise<Identity> {
  const primaries = await connection.primaries();
  if (primaries.length === 0) throw new Error("no primary is known");
  const key = marker === undefined ? undefined : connection.keyPrefix + marker;
  return await Promise.any(primaries.map((primary) => identifyOne(primary, key))).catch((error: AggregateError) => {
    throw error.errors[0];
  });
}

/** Asks one primary who it is. */
export async function identifyOne(primary: Primary, marker?: string): Promise<Identity> {
  const [info, time, settings, span] = await Promise.all([
    primary.command(["INFO"]).then(String),
    // A sentinel has no TIME; INFO shows that it is one.
    primary.command(["TIME"]).then(toMs, () => Number.NaN),
    primary.command(["CONFIG", "GET", "min-replicas-*"]).then(toPairs, () => []),
    marker && primary.command(["HGET", marker, MARKER.span]).catch(() => undefined),
  ]);
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\r?$`, "mu").exec(info)?.[1] ?? "";
  const setting = (name: string): number | undefined => {
    const value = settings.find(([known]) => known === name)?.[1];
    return value === undefined ? undefined : Number(value);
  };
  if (field("redis_version") === "") throw new Error("it answers, but it is not Redis");
  const maxLagS = setting("min-replicas-max-lag");
  return {
    runId: field("run_id"),
    version: field("redis_version"),
    role: field("redis_mode") === "sentinel" ? "sentinel" : field("role") === "slave" ? "slave" : "master",
    policy: field("maxmemory_policy"),
    maxMemory: Number(field("maxmemory") || "0"),
    cluster: field("cluster_enabled") === "1",
    wallMs: time,
    replicas: Number(field("connected_slaves") || "0"),
    minReplicas: setting("min-replicas-to-write"),
    minReplicasMaxLagMs: maxLagS === undefined ? undefined : maxLagS * 1000,
    guardsWrites: field("min_slaves_good_slaves") !== "",
    quarantineMs: span === undefined || span === null || span === "" ? undefined : Number(span),
    persistence: field("aof_enabled") === "1" ? "aof" : "rdb or none",
  };
}
