/**
 * The core over the memory backend, in a world where everything goes wrong, under a simulated clock. One seed is one world:
 * it happens exactly so again. Every world is judged by the oracles O1–O8.
 */
import { createHash } from "node:crypto";
import { checkHistory } from "../history/check.ts";
import { type HistoryEvent, type Violation } from "../history/events.ts";
import { findLinearization } from "../history/linearizable.ts";
import { seeded } from "../seeded-random.ts";
import { FAIR_WEATHER } from "./road.ts";
import { calmDown, drawWeather, makeTrouble } from "./nemesis.ts";
import { type Size, sizeOf } from "./size.ts";
import { drawLocks, type Habits, work } from "./workload.ts";
import { type Mutation, type Node, type Trouble, World } from "./world.ts";

/** The longest ttl and its lock delay decide how long a fault can echo. */
const ECHO = 8;
/** How many worlds have processes that extend their leases. */
const EXTENDING = 0.3;
/** How many have processes whose holds linger. */
const LINGERING = 0.4;

export interface SimulationResult {
  readonly seed: number;
  readonly steps: number;
  readonly simulatedMs: number;
  /** How many leases were held. */
  readonly holds: number;
  readonly lost: number;
  readonly writes: number;
  /** How many writes the guard turned away. */
  readonly rejected: number;
  /** How many commands the store did twice, because they were sent again. */
  readonly twice: number;
  /** How many grant messages came after the lock had been given to another claim. */
  readonly late: number;
  readonly troubles: Readonly<Record<Trouble, number>>;
  readonly violations: readonly Violation[];
  /** For people: `simulation seed=… step=…: …`, one per violation. */
  readonly report: readonly string[];
  readonly history: readonly HistoryEvent[];
}

/** Lives through one world, as large as its seed says. */
export async function simulate(
  seed: number,
  mutation: Mutation = {},
  size: Size = sizeOf(seed),
): Promise<SimulationResult> {
  const { stackTraceLimit } = Error;
  // Thousands of errors are part of the plan; their stacks are never read.
  Error.stackTraceLimit = 0;
  try {
    const world = new World(seed, mutation);
    const ttlMs = Math.ceil(world.chance.between(200, 1200));
    const locks = drawLocks(world.chance, size.locks);
    // Drawn separately, so that all other worlds stay what they were.
    const extending = seeded(seed ^ 0x6c8e9cf5).happens(EXTENDING);
    const lingers = seeded(seed ^ 0x1b873593);
    if (lingers.happens(LINGERING)) world.lingerMs = Math.ceil(ttlMs * lingers.between(0.01, 0.1));
    const troubles = await chaos(world, { ttlMs, locks, extending }, size);
    await peace(world, { ttlMs, locks }, size);
    await takeOver(world, ttlMs);
    await farewell(world, ttlMs);
    return judge(world, seed, troubles);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Everything goes wrong; then the faults clear, and O5: every waiter is served or gives up in time. */
async function chaos(
  world: World,
  { ttlMs, locks, extending }: Pick<Habits, "ttlMs" | "locks" | "extending">,
  { processes, workers: count, chaosTtls }: Size,
): Promise<Readonly<Record<Trouble, number>>> {
  let calm = false;
  const workers = new Set<string>();
  const habits = { ttlMs, locks, workMs: ttlMs * 2, tidy: false, extending };
  const start = (): void => {
    const node = world.spawn();
    drawWeather(world, node, ttlMs);
    for (let worker = 0; worker < count; worker++) {
      const name = `${node.process.name}.${worker}`;
      workers.add(name);
      void work(world, node, String(worker), habits, () => calm).then(() => workers.delete(name));
    }
  };
  for (let process = 0; process < processes; process++) start();
  const troubles = makeTrouble(
    world,
    ttlMs,
    () => calm,
    ({ process }) => {
      // A dead process waits for nothing.
      for (let worker = 0; worker < count; worker++) workers.delete(`${process.name}.${worker}`);
      start();
    },
  );
  await world.until(() => false, ttlMs * chaosTtls);
  calm = true;
  calmDown(world);
  const served = await world.until(() => workers.size === 0, world.nowMs + ttlMs * ECHO + 10_000);
  if (!served) world.fail("O5 liveness", "", `${[...workers].join(", ")} still wait long after the faults cleared`);
  await world.until(() => false, world.nowMs + ttlMs * 4);
  return await troubles;
}

/** Nothing is lost, only slow: callers who stop waiting must leave nothing behind, at once. O6. */
async function peace(
  world: World,
  { ttlMs, locks }: Pick<Habits, "ttlMs" | "locks">,
  { peaceMs }: Size,
): Promise<void> {
  world.phase = "peace";
  expectEmpty(world, "after every ttl has passed");
  let over = false;
  let working = 0;
  for (const node of world.nodes) {
    for (const worker of ["x", "y"]) {
      working++;
      const habits = { ttlMs: ttlMs + 1000, locks, workMs: 30, tidy: true, extending: false };
      void work(world, node, worker, habits, () => over).then(() => working--);
    }
  }
  await world.until(() => false, world.nowMs + peaceMs);
  over = true;
  const done = await world.until(() => working === 0, world.nowMs + 5000);
  if (!done) world.fail("O5 liveness", "", "a claim waits though nothing is wrong");
  // Time for the last messages, and far less than any ttl.
  await world.until(() => false, world.nowMs + (world.lingerMs ?? 0) + FAIR_WEATHER.slowMs * 10);
  expectEmpty(world, "though all have left");
}

/** O5 with its bound: when a holder dies, the next holds within ttl and one check. */
async function takeOver(world: World, ttlMs: number): Promise<void> {
  world.phase = "take-over";
  const [first, second] = world.nodes as [Node, Node];
  let heldMs: number | undefined;
  let waiting = false;
  void first.locks.acquire("job", { ttl: ttlMs }).then(() => (waiting = true));
  await world.until(() => waiting, world.nowMs + 1000);
  const taking = second.locks.acquire("job", { ttl: ttlMs, wait: Infinity }).then(async (lease) => {
    heldMs = world.nowMs;
    await lease.release();
  });
  // If it never comes, close() ends it.
  taking.catch(() => undefined);
  await world.until(() => false, world.nowMs + world.chance.between(100, ttlMs));
  const diedMs = world.nowMs;
  world.crash(first);
  const boundMs = ttlMs * (1 + 1 / 3) + FAIR_WEATHER.slowMs * 4 + 50;
  await world.until(() => heldMs !== undefined, diedMs + boundMs);
  if (heldMs === undefined) {
    world.fail("O5 liveness", "job", `the next holder waited more than ${boundMs.toFixed(0)} ms for a dead one`);
  }
  await world.until(() => false, world.nowMs + ttlMs);
}

/** O6: after close() no timer is left, in no process, and nothing in the store. */
async function farewell(world: World, ttlMs: number): Promise<void> {
  world.phase = "farewell";
  let open = world.nodes.length;
  for (const { locks } of world.nodes) {
    const refused = (error: unknown): void => world.fail("O6 no leak", "", `close() rejected: ${String(error)}`);
    void locks
      .close()
      .catch(refused)
      .then(() => open--);
  }
  if (!(await world.until(() => open === 0, world.nowMs + 5000))) world.fail("O6 no leak", "", "close() does not end");
  await world.until(() => false, world.nowMs + 5000 + ttlMs);
  expectEmpty(world, "after close()");
  for (const { process } of world.nodes) {
    if (process.timers > 0) world.fail("O6 no leak", "", `${process.name} has ${process.timers} timers after close()`);
  }
  if (world.clock.timers > 0)
    world.fail("O6 no leak", "", `the store has ${world.clock.timers} timers after all is over`);
}

function expectEmpty(world: World, when: string): void {
  const { held, pending } = world.store.query("");
  const left = [...held, ...pending].map(({ name, holder }) => `${name} of ${holder}`);
  if (left.length > 0) world.fail("O6 no leak", "", `the store still has ${left.join(", ")} ${when}`);
}

function judge(world: World, seed: number, troubles: Readonly<Record<Trouble, number>>): SimulationResult {
  const rumours = world.mutation.rumours?.(world.nowMs) ?? [];
  const history = [...world.history, ...rumours].toSorted((a, b) => a.atMs - b.atMs);
  const violations = [...world.violations, ...checkHistory(history)];
  const jobs = history.filter(({ lock }) => lock === "job");
  const { linearizable, stuckAt } = findLinearization(jobs);
  if (!linearizable && violations.length === 0) {
    const message = `no order of events explains it: stuck at ${stuckAt}`;
    violations.push({ oracle: "O1 exclusion", atMs: world.nowMs, lock: "job", message });
  }
  violations.sort((a, b) => a.atMs - b.atMs);
  const count = (kind: HistoryEvent["kind"]): number => history.filter((event) => event.kind === kind).length;
  return {
    seed,
    steps: world.steps,
    simulatedMs: world.nowMs,
    holds: count("held"),
    lost: count("lost"),
    writes: count("wrote"),
    rejected: history.filter((event) => event.kind === "wrote" && !event.accepted).length,
    twice: world.networks.reduce((sum, { doneTwice }) => sum + doneTwice, 0),
    late: world.networks.reduce((sum, { late }) => sum + late, 0),
    troubles,
    violations,
    report: violations.map(({ oracle, atMs, lock, message }) => {
      const step = world.stepMs.findLastIndex((ms) => ms <= atMs) + 1;
      return `simulation seed=${seed} step=${step}: ${oracle}${lock === "" ? "" : ` of "${lock}"`}: ${message}`;
    }),
    history,
  };
}

/** A short name for everything that happened: equal for equal worlds. */
export function digestOf({ history }: SimulationResult): string {
  const hash = createHash("sha256");
  for (const event of history) {
    hash.update(JSON.stringify(event, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)));
  }
  return hash.digest("hex").slice(0, 16);
}
