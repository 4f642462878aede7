/** node-cron 4: a run coordinator, for tasks with `distributed: true`. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { MAX_TTL_MS } from "../../contract/duration.ts";
import type { Locks } from "../../core/api.ts";
import { assertSupported } from "../supported.ts";
import { checkSlot, type SlotOptions } from "./options.ts";
import { settle, type SlotRun, thrown } from "./run-slot.ts";

/** node-cron does not say whether its function has failed. */
export type CoordinatorOptions = Omit<SlotOptions, "onFailure">;

/** A `RunCoordinator` of node-cron. Not by its types: an app may use another scheduler, and not have them. */
export interface SlotCoordinator {
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  onComplete(key: string): Promise<void>;
  /** What a running task may know of its slot: fence and signal. `undefined`: it was not started by this coordinator, but by hand. */
  runOf(context: TaskContext): SlotRun | undefined;
}

/** What a task of node-cron gets, as far as it is used. */
interface TaskContext {
  readonly date: Date;
  readonly task?: { readonly name?: string | undefined } | undefined;
  /** Has an `error` when its function has failed. */
  readonly execution?: object | undefined;
}

interface Running {
  readonly run: SlotRun;
  /** Ends the work, as far as the locks know. */
  readonly complete: () => void;
  /** The same, for work that was cut off and has not done its slot. */
  readonly cut: (error: unknown) => void;
  readonly settled: Promise<unknown>;
  /** What node-cron knows of it: of tasks that have asked for their run, and so for the signal. */
  execution?: object | undefined;
}

const KEY = /^([^]+):(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/;
const TTL_MIN_MS = 100;

/**
 * Give it to `setRunCoordinator()`, or to a task as `runCoordinator`. Of all processes one runs a slot; the others wait in `shouldRun()`, and
 * one of them takes over where that one dies. Where the store cannot be asked, `shouldRun()` rejects, and node-cron skips the slot.
 */
export function runCoordinator(locks: Locks, options: CoordinatorOptions = {}): SlotCoordinator {
  assertSupported("node-cron", import.meta.url);
  // Its task's name is that of the job.
  const checked = checkSlot(locks, "any", options);
  // Two tasks of one process may have the same name: the second may take over a slot that the first has lost, and still works on.
  const running = new Map<string, readonly Running[]>();
  return {
    shouldRun: async (key, ttlMs) => {
      const [name, slot] = partsOf(key);
      let complete = (): void => undefined;
      let cut = (_error: unknown): void => undefined;
      let begin = (_run: SlotRun): void => undefined;
      const isComplete = new Promise<void>((resolve, reject) => void ([complete, cut] = [resolve, reject]));
      const begun = new Promise<SlotRun>((resolve) => void (begin = resolve));
      const ttl = checked.lock.ttl ?? Math.min(Math.max(Math.ceil(ttlMs), TTL_MIN_MS), MAX_TTL_MS);
      const settled = settle(locks, name, slot, { ...checked, lock: { ...checked.lock, ttl } }, async (run) => {
        begin(run);
        await isComplete;
      }).then(thrown);
      // Settled before it has begun: another process has run it, or the store could not be asked.
      const run = await Promise.race([begun, settled.then(() => undefined)]);
      if (run === undefined) return false;
      settled.catch(() => undefined);
      running.set(key, [...(running.get(key) ?? []), { run, complete, cut, settled }]);
      return true;
    },
    onComplete: async (key) => {
      const all = running.get(key) ?? [];
      // node-cron does not say which one. The one that is left last keeps the slot until both have ended.
      const here = all.find(({ run: { signal } }) => signal.aborted) ?? all[0];
      if (here === undefined) return;
      if (all.length === 1) running.delete(key);
      else
        running.set(
          key,
          all.filter((one) => one !== here),
        );
      const { run, execution = {} } = here;
      if (run.signal.aborted && "error" in execution) here.cut(execution.error);
      else here.complete();
      // Rejects where the slot was lost: node-cron logs that.
      await here.settled;
    },
    runOf: ({ date, task, execution }) => {
      const all = running.get(`${task?.name ?? ""}:${date.toISOString()}`) ?? [];
      const here = all.find((one) => one.execution === execution) ?? all.findLast((one) => one.execution === undefined);
      if (here !== undefined) here.execution = execution;
      return here?.run;
    },
  };
}

function partsOf(key: string): readonly [name: string, slot: Date] {
  const [, name = "", time = ""] = KEY.exec(key) ?? [];
  const slot = new Date(time);
  if (name !== "" && !Number.isNaN(slot.getTime())) return [name, slot];
  throw new ArgumentError(`Expected a key of node-cron, which is a name and a time, got ${got(key)}`);
}
