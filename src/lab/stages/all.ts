/** The table of stages: which store plays where, and what the soak may do to it. A new backend is a new row, or null. */
import type { Scenario } from "../scenarios/scenario.ts";
import { TTL_MS } from "../scenarios/scenario.ts";
import { CLIENT_FAULTS, type FaultKind, NETWORK_FAULTS } from "../soak/faults.ts";
import type { Stage, StageName } from "../stage.ts";
import { openEtcdStage } from "./etcd.ts";
import { openFileStage } from "./file.ts";
import { openMemoryStage } from "./memory.ts";
import { openPostgresStage } from "./postgres.ts";
import { openPostgresPairStage } from "./postgres-pair.ts";
import { openQuorumStage, openRedisStage } from "./redis.ts";
import { openSentinelStage } from "./sentinel.ts";
import { openZooKeeperStage } from "./zookeeper.ts";

interface StageEntry {
  /** Null: there is nothing to put on a stage. */
  readonly play: ((scenario: Scenario) => Promise<Stage>) | null;
  /** Null: it is not soaked. */
  readonly soak: { readonly open: (ttlMs: number) => Promise<Stage>; readonly faults: readonly FaultKind[] } | null;
}

/** Three Java servers and a loaded machine need some slack. */
const MIN_SESSION_MS = 3500;
const RESTARTS: readonly FaultKind[] = ["server stopped", "server killed and restarted"];

/** `faults`: those under which the backend promises mutual exclusion. */
const STAGES: Readonly<Record<StageName, StageEntry | null>> = {
  // It lives in one process, and its store dies with it, so it cannot be killed.
  memory: { play: null, soak: { open: openMemoryStage, faults: ["client stopped"] } },
  file: { play: openFileStage, soak: { open: openFileStage, faults: CLIENT_FAULTS } },
  redis: {
    play: ({ durable }) => openRedisStage({ durable }),
    soak: {
      open: () => openRedisStage({ durable: true }),
      faults: [...CLIENT_FAULTS, ...NETWORK_FAULTS, ...RESTARTS],
    },
  },
  quorum: {
    play: ({ members, ttlMs }) => openQuorumStage({ members, maxTtlMs: 2 * (ttlMs ?? TTL_MS) }),
    soak: {
      open: (ttlMs) => openQuorumStage({ members: 3, maxTtlMs: ttlMs }),
      faults: [...CLIENT_FAULTS, ...NETWORK_FAULTS, ...RESTARTS, "server emptied"],
    },
  },
  sentinel: { play: ({ sentinel }) => openSentinelStage(sentinel), soak: null },
  postgres: {
    play: ({ standby }) => (standby === undefined ? openPostgresStage() : openPostgresPairStage(standby)),
    soak: { open: openPostgresStage, faults: [...CLIENT_FAULTS, ...NETWORK_FAULTS, ...RESTARTS] },
  },
  // The same server and the same connections as those of postgres: what differs is played in test/backends/shedlock.
  shedlock: null,
  // The same server and the same connections as those of redis: what differs is played in test/backends/redis-plain.
  "redis-plain": null,
  // As for redis-plain; and beside real Java in `npm run judges -- redisson`.
  redisson: null,
  etcd: {
    play: openEtcdStage,
    soak: { open: openEtcdStage, faults: [...CLIENT_FAULTS, ...NETWORK_FAULTS, ...RESTARTS] },
  },
  zookeeper: {
    play: ({ ttlMs }) => openZooKeeperStage(Math.max(MIN_SESSION_MS, ttlMs ?? TTL_MS)),
    soak: {
      open: (ttlMs) => openZooKeeperStage(ttlMs),
      faults: [...CLIENT_FAULTS, ...NETWORK_FAULTS, ...RESTARTS],
    },
  },
};

const NAMES = Object.keys(STAGES) as StageName[];

/** Those on which scenarios are played. */
export const PLAYED: readonly StageName[] = NAMES.filter((name) => (STAGES[name]?.play ?? null) !== null);

/** Those that are soaked. */
export const SOAKED: readonly StageName[] = NAMES.filter((name) => (STAGES[name]?.soak ?? null) !== null);

export function openStage(name: StageName, scenario: Scenario): Promise<Stage> {
  const open = STAGES[name]?.play ?? null;
  if (open === null) throw new TypeError(`There is no stage for ${name}: expected one of ${PLAYED.join(", ")}`);
  return open(scenario);
}

export function openSoakStage(name: StageName, ttlMs: number): Promise<Stage> {
  return soakOf(name).open(ttlMs);
}

export function soakFaults(name: StageName): readonly FaultKind[] {
  return soakOf(name).faults;
}

function soakOf(name: StageName): NonNullable<StageEntry["soak"]> {
  const soak = STAGES[name]?.soak ?? null;
  if (soak === null) throw new TypeError(`${name} is not soaked: expected one of ${SOAKED.join(", ")}`);
  return soak;
}
