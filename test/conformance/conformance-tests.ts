/** Turns the conformance suite into tests of one backend. Every backend has a file of its own beside this one. */
import type { EventEmitter } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Abilities } from "../../src/contract/backend.ts";
import { systemClock } from "../../src/contract/clock.ts";
import {
  conformance,
  type ConformanceContext,
  type ConformancePromise,
  type Declined,
  memberConformance,
  withoutDeclined,
} from "../../src/testing/index.ts";
import { atLast, countTimers, Leftovers } from "../../src/testing/leftovers.ts";

const ABILITIES: readonly (keyof Abilities)[] = ["outcomes", "wanted", "otherTtl", "steal", "waiters", "linger"];

/** What must happen at last happens in milliseconds; a machine that is busy with other things may need this long. */
const PATIENCE_MS = 60_000;
/** With room for every try of a check that finds its machine too busy: only one that hangs takes so long. */
const TIMEOUT_MS = 20 * PATIENCE_MS;

export interface ConformanceEntry {
  readonly name: string;
  /** Starts whatever the backend needs; runs once. */
  start(): Promise<ConformanceContext> | ConformanceContext;
  /** Stops it. */
  stop?(): Promise<void>;
  /** After all checks: what is left in the store that no lock's name tells. */
  left?(): Promise<readonly string[]> | readonly string[];
  /** What the backends were given, and must leave as it was: clients of the user's. */
  emitters?(): Promise<Readonly<Record<string, EventEmitter>>>;
  /** True for a backend that can be a member of a quorum. */
  readonly member?: boolean;
  /** Promises that do not apply, each with its reason. */
  readonly declined?: Declined;
  /** What the backend says it cannot do. Its own words are the reason. */
  readonly cannot?: readonly (keyof Abilities)[];
  /** False: one check after the other, for a backend on a fake clock. @default true */
  readonly concurrent?: boolean;
}

/** What is on its way out needs a moment; the limit only ends a run that has failed anyway. */
const LEAVING_MS = 15_000;

export function conformanceTests(entry: ConformanceEntry): void {
  const { declined = {}, cannot = [] } = entry;
  const promises: readonly ConformancePromise[] = [...conformance, ...(entry.member === true ? memberConformance : [])];
  judgeProcess();
  describe(entry.name, { concurrent: entry.concurrent ?? true }, () => {
    let context: ConformanceContext;
    let before: Leftovers;
    beforeAll(async () => {
      context = { patienceMs: PATIENCE_MS, ...(await entry.start()) };
      // The process is judged once for all entries of a file, when their servers are gone: they run side by side.
      before = new Leftovers({ clock: context.clock, emitters: await entry.emitters?.(), process: false });
    });
    afterAll(async () => {
      try {
        const look = async (): Promise<readonly string[]> => [...before.look(), ...((await entry.left?.()) ?? [])];
        expect(await atLast(look, LEAVING_MS), "left behind").toEqual([]);
      } finally {
        await entry.stop?.();
      }
    });

    describe("promises", () => {
      for (const { promise, check, ability } of withoutDeclined(promises, declined)) {
        if (ability !== undefined && cannot.includes(ability)) continue;
        test(promise, { timeout: TIMEOUT_MS }, () => check(context));
      }
    });

    test("the backend says what it can do, and of the rest why not", { timeout: TIMEOUT_MS }, async () => {
      const backend = await context.open();
      try {
        for (const ability of ABILITIES) {
          const can = backend.can?.[ability];
          if (!cannot.includes(ability)) expect(can, ability).toBe(true);
          else expect(String(can).split(" ").length, `why it cannot: ${ability}`).toBeGreaterThan(3);
        }
      } finally {
        await backend.close();
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

let judged = false;

/** Neither a socket, nor a server, nor a timer is left when everything is closed, whether it keeps a process alive or not. */
function judgeProcess(): void {
  if (judged) return;
  judged = true;
  let before: Leftovers;
  beforeAll(() => {
    before = new Leftovers({ clock: countTimers(systemClock) });
  });
  afterAll(async () => {
    expect(await before.lookAtLast(LEAVING_MS), "left in the process").toEqual([]);
  });
}
