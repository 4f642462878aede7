/** Opens the stage that a scenario wants. */
import type { Scenario } from "../scenarios/scenario.ts";
import { TTL_MS } from "../scenarios/scenario.ts";
import type { StageName, Stage } from "../stage.ts";
import { openFileStage } from "./file.ts";
import { openQuorumStage, openRedisStage } from "./redis.ts";
import { openSentinelStage } from "./sentinel.ts";
import { openZooKeeperStage } from "./zookeeper.ts";

/** Three Java servers and a loaded machine need some slack. */
const MIN_SESSION_MS = 3500;

export function openStage(backend: StageName, scenario: Scenario): Promise<Stage> {
  switch (backend) {
    case "redis":
      return openRedisStage({ durable: scenario.durable });
    case "quorum":
      return openQuorumStage({ members: scenario.members, maxTtlMs: 2 * (scenario.ttlMs ?? TTL_MS) });
    case "sentinel":
      return openSentinelStage(scenario.sentinel);
    case "zookeeper":
      return openZooKeeperStage(Math.max(MIN_SESSION_MS, scenario.ttlMs ?? TTL_MS));
    case "file":
      return openFileStage();
    case "memory":
      throw new TypeError("The memory backend lives in one process: there is nothing to put on a stage");
  }
}
