/** What each room of the tests may cost, in seconds. One table, so that one more backend is one more line. */
import type { Cost } from "./judge.ts";

/** Measured on a calm machine with two cores, with about a tenth added. */
export const BUDGETS: Readonly<Record<string, Cost>> = {
  "test/": { cpu: 36, time: 60 },
  "test/adapters/": { cpu: 17, time: 60 },
  "test/adapters/nestjs": { cpu: 7, time: 14 },
  "test/backends/memory/": { cpu: 1, time: 2 },
  "test/bench/": { cpu: 3, time: 5 },
  "test/budget/": { cpu: 1, time: 2 },
  "test/cli/": { cpu: 170, time: 410 },
  "test/conformance/file": { cpu: 8, time: 30 },
  "test/conformance/memory": { cpu: 1, time: 5 },
  "test/conformance/quorum": { cpu: 20, time: 44 },
  "test/conformance/redis-plain": { cpu: 12, time: 20 },
  "test/backends/redis-plain/": { cpu: 11, time: 36 },
  "test/conformance/redisson": { cpu: 20, time: 30 },
  "test/backends/redisson/": { cpu: 9, time: 36 },
  "test/conformance/redis": { cpu: 22, time: 36 },
  "test/conformance/zookeeper": { cpu: 16, time: 22 },
  "test/conformance/postgres": { cpu: 15, time: 30 },
  "test/backends/postgres/": { cpu: 48, time: 110 },
  "test/conformance/shedlock": { cpu: 5, time: 10 },
  "test/backends/shedlock/": { cpu: 3, time: 7 },
  "test/conformance/etcd": { cpu: 8, time: 20 },
  "test/console/": { cpu: 25, time: 90 },
  "test/core/": { cpu: 49, time: 86 },
  "test/drop-ins/": { cpu: 14, time: 60 },
  "test/drop-ins/mixed": { cpu: 4, time: 20 },
  "test/drop-ins/types": { cpu: 8, time: 20 },
  "test/drop-ins/redlock/": { cpu: 7, time: 42 },
  "test/drop-ins/redis-semaphore/": { cpu: 7, time: 60 },
  "test/fence/": { cpu: 29, time: 30 },
  "test/backends/file/": { cpu: 62, time: 105 },
  "test/judges/": { cpu: 1, time: 2 },
  "test/lab/": { cpu: 88, time: 130 },
  "test/backends/quorum/": { cpu: 36, time: 60 },
  "test/backends/redis/": { cpu: 125, time: 310 },
  "test/security/": { cpu: 24, time: 62 },
  "test/simulation/": { cpu: 24, time: 25 },
  "test/telemetry/": { cpu: 6, time: 12 },
  "test/spec/": { cpu: 22, time: 45 },
  "test/testing/": { cpu: 6, time: 17 },
  "test/backends/zookeeper/": { cpu: 52, time: 110 },
  "test/backends/etcd/": { cpu: 21, time: 57 },
};

/** Kept for what is not there yet. */
export const RESERVE: Readonly<Record<string, Cost>> = {
  adapters: { cpu: 2, time: 2 },
};

/** The whole run. */
export const MOST_ELAPSED = 600;
export const CORES = 2;
/** As many test files run at once: `maxWorkers` in vitest.config.ts. */
export const WORKERS = 4;
