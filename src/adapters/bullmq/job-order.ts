/**
 * The jobs of a lock begin in the order in which BullMQ gave them out for the first time, over all workers of a queue. It is kept in BullMQ's own
 * Redis, beside the jobs: see lua/turn.lua.
 *
 * A job keeps its place until it is completed, has failed for good, or was removed; then the next one, which was delayed meanwhile, is woken. One that
 * was not woken, because a worker died, comes back by itself, or is woken by any job of its lock that does.
 */
import type { Job } from "bullmq";
import { checkName } from "../../core/options.ts";
import { wake, turn } from "./generated/scripts.ts";
import { type BullWorker, runScript, workerInOrder } from "./worker-of.ts";

type KeyOf = (job: Job) => unknown;

/** Not its turn: so many are before it. */
interface Later {
  readonly ahead: number;
}

/** A text of the script: it comes from the store, and is checked. */
const IDS = (reply: readonly unknown[]): readonly string[] => reply.map(String);

export class JobOrder {
  readonly #keyOf: KeyOf;
  readonly #limit: number;
  readonly #watched = new WeakSet<object>();
  /** The locks of jobs that had their turn here: of the very objects that BullMQ tells of when they have ended. */
  readonly #begun = new WeakMap<object, string>();

  constructor(keyOf: KeyOf, limit: number) {
    this.#keyOf = keyOf;
    this.#limit = limit;
  }

  /** `undefined`: it is its turn. */
  async turn(job: Job, lock: string): Promise<Later | undefined> {
    const worker = workerInOrder(job);
    this.#watch(worker);
    let reply = await this.#ask(worker, job, lock, ["0"]);
    if (reply[0] === "ask") {
      const before = await this.#before(worker, job, Number(reply[1]), IDS(reply.slice(2)));
      reply = await this.#ask(worker, job, lock, ["1", ...before]);
    }
    if (reply[0] === "turn") {
      this.#begun.set(job, lock);
      return undefined;
    }
    return { ahead: Math.max(1, Number(reply[1])) };
  }

  /** Wakes those whose turn it is: for a job that was delayed now. Its own may have come just before, or that of one that was not woken. */
  async wake(job: Job, lock: string): Promise<void> {
    await this.#wake(workerInOrder(job), lock);
  }

  async #wake(worker: BullWorker, lock: string): Promise<void> {
    const states = ["completed", "failed", "waiting-children", "delayed"].map((state) => worker.toKey(state));
    const reply = await runScript(
      worker,
      wake,
      [orderKey(worker, lock), ...states],
      [worker.toKey(""), lock, this.#limit],
    );
    await promote(worker, IDS(reply as readonly unknown[]));
  }

  async #ask(worker: BullWorker, job: Job, lock: string, before: readonly string[]): Promise<readonly unknown[]> {
    const states = ["active", "wait", "completed", "failed", "waiting-children", "delayed"];
    const keys = [orderKey(worker, lock), ...states.map((state) => worker.toKey(state))];
    const args = [worker.toKey(""), job.id!, lock, this.#limit, ...before];
    return (await runScript(worker, turn, keys, args)) as readonly unknown[];
  }

  /** Of each that has no place and comes before this job, its id and its lock. Its own processor would find the same, and may be dead. */
  async #before(worker: BullWorker, own: Job, again: number, ids: readonly string[]): Promise<readonly string[]> {
    const { fromId } = own.constructor as unknown as { readonly fromId: typeof Job.fromId };
    const found = await Promise.all(ids.map((id) => fromId.call(own.constructor, worker as never, id)));
    // The list that they were in says nothing of those that were lost by their workers.
    const lost = found
      .slice(0, again)
      .filter((job) => job !== undefined)
      .toSorted(byAge);
    const mine = own.attemptsStarted > 1 ? lost.filter((job) => byAge(job, own) < 0) : lost;
    const before: string[] = [];
    for (const job of [...mine, ...found.slice(again)]) {
      if (job?.id === undefined) continue;
      let lock = "";
      try {
        const key = await this.#keyOf(job);
        checkName(key);
        lock = key;
      } catch {
        // It needs none, or that job fails by itself.
      }
      before.push(job.id, lock);
    }
    return before;
  }

  /** One that has ended in this process wakes the next. */
  #watch(worker: BullWorker): void {
    if (this.#watched.has(worker)) return;
    this.#watched.add(worker);
    const ended = (job: object | undefined): void => void this.#ended(worker, job);
    worker.on("completed", ended);
    worker.on("failed", ended);
  }

  /** Never rejects: where the worker is being closed, the next one comes back by itself. */
  async #ended(worker: BullWorker, job: object | undefined): Promise<void> {
    if (job === undefined) return;
    try {
      // One that BullMQ has failed without processing it, because it stalled too often, has no turn.
      const lock = this.#begun.get(job) ?? (await this.#keyOf(job as Job));
      if (typeof lock === "string") await this.#wake(worker, lock);
    } catch {
      // As above.
    }
  }
}

function orderKey(worker: BullWorker, lock: string): string {
  return `${worker.toKey("")}holdfast:order:${lock}`;
}

/** One that is not delayed any more is refused, and has been woken by another. */
async function promote(worker: BullWorker, ids: readonly string[]): Promise<void> {
  await Promise.all(
    ids.map((id) =>
      worker
        .getBackend()
        .promote(id)
        .catch(() => undefined),
    ),
  );
}

/** BullMQ's own ids are counted up, and no other is a number. */
function byAge(one: Job, other: Job): number {
  const [a, b] = [Number(one.id), Number(other.id)];
  return Number.isNaN(a) || Number.isNaN(b) ? one.timestamp - other.timestamp : a - b;
}
