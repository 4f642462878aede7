/** What each room of the tests may cost, in seconds. One table, so that one more backend is one more line. */
import type { Cost } from "./judge.ts";

/**
 * Processor time was measured on a machine that was busy with other things, which makes it dearer by about a third, and rounded up.
 */
export const BUDGETS: Readonly<Record<string, Cost>> = {
  "test/": { cpu: 12, time: 30 },
  "test/bench/": { cpu: 5, time: 10 },
  "test/budget/": { cpu: 3, time: 5 },
  "test/cli/": { cpu: 220, time: 380 },
  "test/conformance/file": { cpu: 10, time: 40 },
  "test/conformance/memory": { cpu: 3, time: 10 },
  "test/conformance/quorum": { cpu: 40, time: 60 },
  "test/conformance/redis": { cpu: 32, time: 60 },
  "test/conformance/zookeeper": { cpu: 14, time: 30 },
  "test/core/": { cpu: 30, time: 40 },
  "test/fence/": { cpu: 35, time: 80 },
  "test/file/": { cpu: 125, time: 180 },
  "test/lab/": { cpu: 110, time: 190 },
  "test/quorum/": { cpu: 80, time: 110 },
  "test/redis/": { cpu: 120, time: 200 },
  "test/security/": { cpu: 16, time: 30 },
  "test/simulation/": { cpu: 110, time: 110 },
  "test/spec/": { cpu: 35, time: 40 },
  "test/testing/": { cpu: 6, time: 10 },
  "test/zookeeper/": { cpu: 90, time: 110 },
};

/** Kept for what is not there yet: two more backends, each with its conformance suite, its own tests and its guards. */
export const RESERVE: Readonly<Record<string, Cost>> = {
  etcd: { cpu: 50, time: 35 },
  postgres: { cpu: 50, time: 35 },
};

/** The whole run. */
export const MOST_ELAPSED = 600;
export const CORES = 2;
/** As many test files run at once: `maxWorkers` in vitest.config.ts. */
export const WORKERS = 3;
