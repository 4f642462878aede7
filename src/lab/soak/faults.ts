/** Causes random faults, one at a time, and checks that locks are taken again after each. */
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededChance } from "../../testing/seeded-random.ts";
import type { Client } from "../clients/client.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Proxy } from "../proxy.ts";
import type { WallClock } from "../servers/wall-clock.ts";
import type { StageServer } from "../stage.ts";
import type { SoakRecord } from "./record.ts";

/** A client of the soak, which a kill replaces. */
export interface Victim {
  client: Client;
  readonly proxies: readonly Proxy[];
  readonly wallClock: WallClock | undefined;
  /** Starts another process in the place of one that was killed. */
  replace(): Promise<void>;
}

export interface Targets {
  readonly victims: readonly Victim[];
  readonly servers: readonly StageServer[];
  /** Faults that this store promises to survive with exclusion intact. */
  readonly kinds: readonly FaultKind[];
  readonly ttlMs: number;
}

export type FaultKind =
  | "client stopped"
  | "client killed"
  | "client's wall clock moved"
  | "connections reset"
  | "network hung"
  | "replies held back"
  | "replies lost"
  | "connections half open"
  | "connections refused"
  | "network slow"
  | "server stopped"
  | "server killed and restarted"
  | "server emptied";

/** How long after a fault a lock must be held again: a dead holder's ttl, a member's abstention, a slow machine. */
const LIVELY_MS = 30_000;

interface Strike {
  readonly targets: Targets;
  readonly record: SoakRecord;
  readonly victim: Victim;
  readonly server: StageServer | undefined;
  readonly forMs: number;
}

const network =
  (spoil: (proxy: Proxy) => void | Promise<void>, cutAfter = false): ((strike: Strike) => Promise<void>) =>
  async ({ victim, forMs }) => {
    for (const proxy of victim.proxies) await spoil(proxy);
    await sleep(forMs);
    await Promise.all(victim.proxies.map((proxy) => proxy.heal()));
    if (cutAfter) for (const proxy of victim.proxies) proxy.cut();
  };

const FAULTS: Readonly<Record<FaultKind, (strike: Strike) => Promise<void>>> = {
  "client stopped": async ({ victim, forMs }) => {
    victim.client.pause();
    await sleep(forMs);
    victim.client.resume();
  },
  "client killed": async ({ victim, record }) => {
    // Before the signal leaves: a store that notices dead processes may have another holder before we learn of the end.
    const atMs = machineMs();
    await victim.client.kill();
    record.killed(victim.client.name, atMs);
    await victim.replace();
  },
  "client's wall clock moved": async ({ victim, forMs }) => {
    victim.wallClock?.jump(600_000);
    await sleep(forMs);
    victim.wallClock?.jump(-600_000);
  },
  "connections reset": network((proxy) => proxy.cut()),
  "network hung": network((proxy) => proxy.hang()),
  "replies held back": network((proxy) => proxy.hang("replies")),
  "replies lost": network((proxy) => proxy.drop("replies"), true),
  "connections half open": network((proxy) => proxy.halfOpen(), true),
  "connections refused": network(async (proxy) => {
    await proxy.refuse();
    proxy.cut();
  }),
  "network slow": network((proxy) => proxy.delay(30, "both", 60)),
  "server stopped": async ({ server, targets, forMs }) => {
    const stopped = await firstToStop([...(server === undefined ? [] : [server]), ...targets.servers]);
    stopped?.pause?.();
    await sleep(forMs);
    stopped?.resume?.();
  },
  "server killed and restarted": async ({ server, forMs }) => {
    await server?.kill?.();
    await sleep(forMs / 2);
    await server?.restart?.();
  },
  "server emptied": async ({ server }) => server?.flush?.(),
};

async function firstToStop(servers: readonly StageServer[]): Promise<StageServer | undefined> {
  for (const server of servers) if ((await server.isSpared?.()) !== true) return server;
  return undefined;
}

export const CLIENT_FAULTS: readonly FaultKind[] = ["client stopped", "client killed"];
export const NETWORK_FAULTS: readonly FaultKind[] = [
  "client's wall clock moved",
  "connections reset",
  "network hung",
  "replies held back",
  "replies lost",
  "connections half open",
  "connections refused",
  "network slow",
];

/** Causes faults until the signal aborts; the last fault is healed before it resolves. */
export async function injectFaults(
  targets: Targets,
  record: SoakRecord,
  chance: SeededChance,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(chance.between(200, 1500), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const kind = chance.pick(targets.kinds);
    const server = targets.servers.length === 0 ? undefined : chance.pick(targets.servers);
    const strike = {
      targets,
      record,
      server,
      victim: chance.pick(targets.victims),
      forMs: chance.between(100, 2 * targets.ttlMs),
    };
    record.fault(kind);
    await FAULTS[kind](strike);
    await untilLively(record, kind, signal);
  }
}

async function untilLively(record: SoakRecord, kind: FaultKind, signal: AbortSignal): Promise<void> {
  const healedMs = machineMs();
  while (record.lastHeldMs < healedMs && !signal.aborted) {
    if (machineMs() - healedMs > LIVELY_MS)
      return record.stalled(`no lock was held for ${LIVELY_MS} ms after: ${kind}`);
    await sleep(50);
  }
}
