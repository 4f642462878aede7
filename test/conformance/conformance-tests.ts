/** Turns the conformance suite into tests of one backend. Every backend has a file of its own beside this one. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  conformance,
  type ConformanceContext,
  type ConformancePromise,
  type Declined,
  memberConformance,
  withoutDeclined,
} from "../../src/testing/index.ts";

/** What must happen at last happens in milliseconds; a machine that is busy with other things may need this long. */
const PATIENCE_MS = 60_000;
const TIMEOUT_MS = 4 * PATIENCE_MS;

export interface ConformanceEntry {
  readonly name: string;
  /** Starts whatever the backend needs; runs once. */
  start(): Promise<ConformanceContext> | ConformanceContext;
  /** Stops it. */
  stop?(): Promise<void>;
  /** True for a backend that can be a member of a quorum. */
  readonly member?: boolean;
  /** Promises that do not apply, each with its reason. */
  readonly declined?: Declined;
  /** False: one check after the other, for a backend on a fake clock. @default true */
  readonly concurrent?: boolean;
}

export function conformanceTests(entry: ConformanceEntry): void {
  const { declined = {} } = entry;
  const promises: readonly ConformancePromise[] = [...conformance, ...(entry.member === true ? memberConformance : [])];
  describe(entry.name, { concurrent: entry.concurrent ?? true }, () => {
    let context: ConformanceContext;
    beforeAll(async () => {
      context = { patienceMs: PATIENCE_MS, ...(await entry.start()) };
    });
    afterAll(async () => entry.stop?.());

    describe("promises", () => {
      for (const { promise, check } of withoutDeclined(promises, declined)) {
        test(promise, { timeout: TIMEOUT_MS }, () => check(context));
      }
    });

    for (const [promise, reason] of Object.entries(declined)) {
      test(`declined: ${promise}. Reason: ${reason}`, () => {
        // A reason is a sentence for a reader, not a tick in a box.
        expect(reason.split(" ").length).toBeGreaterThan(3);
      });
    }
  });
}
