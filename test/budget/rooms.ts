/** What each room of the tests may cost, in seconds. One table, so that one more backend is one more line. */
import type { Cost } from "./judge.ts";

export const BUDGETS: Readonly<Record<string, Cost>> = {
  "test/": { cpu: 100, time: 100 },
  "test/bench/": { cpu: 100, time: 100 },
  "test/budget/": { cpu: 100, time: 100 },
  "test/cli/": { cpu: 100, time: 100 },
  "test/conformance/file": { cpu: 100, time: 100 },
  "test/conformance/memory": { cpu: 100, time: 100 },
  "test/conformance/quorum": { cpu: 100, time: 100 },
  "test/conformance/redis": { cpu: 100, time: 100 },
  "test/conformance/zookeeper": { cpu: 100, time: 100 },
  "test/core/": { cpu: 100, time: 100 },
  "test/fence/": { cpu: 100, time: 100 },
  "test/file/": { cpu: 100, time: 100 },
  "test/lab/": { cpu: 100, time: 100 },
  "test/quorum/": { cpu: 100, time: 100 },
  "test/redis/": { cpu: 100, time: 100 },
  "test/security/": { cpu: 100, time: 100 },
  "test/simulation/": { cpu: 100, time: 100 },
  "test/spec/": { cpu: 100, time: 100 },
  "test/testing/": { cpu: 100, time: 100 },
  "test/zookeeper/": { cpu: 100, time: 100 },
};

/** The whole run, on two cores. */
export const MOST_ELAPSED = 600;
