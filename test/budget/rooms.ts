/** What each room of the tests may cost, in seconds. One table, so that one more backend is one more line. */
import type { Cost } from "./judge.ts";

/** Measured on a calm machine with two cores, with about a tenth added. */
export const BUDGETS: Readonly<Record<string, Cost>> = {
  "test/": { cpu: 19, time: 40 },
  "test/backends/memory/": { cpu: 1, time: 2 },
  "test/bench/": { cpu: 3, time: 5 },
  "test/budget/": { cpu: 1, time: 2 },
  "test/cli/": { cpu: 200, time: 320 },
  "test/conformance/file": { cpu: 8, time: 30 },
  "test/conformance/memory": { cpu: 1, time: 5 },
  "test/conformance/quorum": { cpu: 25, time: 35 },
  "test/conformance/redis": { cpu: 23, time: 30 },
  "test/conformance/zookeeper": { cpu: 14, time: 22 },
  "test/conformance/postgres": { cpu: 18, time: 30 },
  "test/backends/postgres/": { cpu: 25, time: 50 },
  "test/conformance/shedlock": { cpu: 5, time: 10 },
  "test/backends/shedlock/": { cpu: 3, time: 7 },
  "test/conformance/etcd": { cpu: 7, time: 20 },
  "test/core/": { cpu: 42, time: 80 },
  "test/fence/": { cpu: 29, time: 40 },
  "test/backends/file/": { cpu: 85, time: 130 },
  "test/lab/": { cpu: 105, time: 155 },
  "test/backends/quorum/": { cpu: 55, time: 108 },
  "test/backends/redis/": { cpu: 155, time: 320 },
  "test/security/": { cpu: 16, time: 42 },
  "test/simulation/": { cpu: 40, time: 55 },
  "test/spec/": { cpu: 33, time: 55 },
  "test/testing/": { cpu: 6, time: 6 },
  "test/backends/zookeeper/": { cpu: 80, time: 125 },
  "test/backends/etcd/": { cpu: 18, time: 55 },
};

/** Kept for what is not there yet: the adapters for frameworks. */
export const RESERVE: Readonly<Record<string, Cost>> = {
  adapters: { cpu: 20, time: 20 },
};

/** The whole run. */
export const MOST_ELAPSED = 600;
export const CORES = 2;
/** As many test files run at once: `maxWorkers` in vitest.config.ts. */
export const WORKERS = 3;
