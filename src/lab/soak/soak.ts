/** The soak: many clients, random faults, every oracle, for as long as asked. */
import { atLast } from "../../testing/leftovers.ts";
import { seeded } from "../../testing/seeded-random.ts";
import { leftToSee } from "../leftovers.ts";
import type { StageName, Observer, Stage } from "../stage.ts";
import { SoakClients } from "./clients.ts";
import { judgeEnd } from "./end.ts";
import { openSoakStage, SOAKED, soakFaults } from "../stages/all.ts";
import { injectFaults } from "./faults.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  /** @default all that can be soaked */
  readonly backends?: readonly StageName[] | undefined;
  /** Called every ten seconds. */
  readonly onProgress?: ((counts: readonly SoakCounts[]) => void) | undefined;
}

export interface SoakCounts {
  readonly backend: StageName;
  readonly sections: number;
  readonly refusals: number;
  readonly refusedWrites: number;
  /** Events that came too late to be judged. */
  readonly unjudged: number;
  readonly faults: Readonly<Record<string, number>>;
  /** What was not done to the store, and why. */
  readonly spares: string | undefined;
  readonly violations: readonly string[];
  readonly leakedKeys: readonly string[];
  /** What closed locks left open in their processes: timers, sockets, handles. */
  readonly leakedHandles: readonly string[];
  /** How often close() said that the store had not answered, where it was too slow for the lab, too. What is left is judged in the store. */
  readonly unconfirmed: number;
}

const TTL_MS = 2000;
const EPOCH_MS = 15_000;
const PROGRESS_MS = 10_000;
/** What a killed client left in a store ends by itself within this. */
const RUN_OUT_MS = 30_000;

/** Soaks them all at once; the time counts from when all their clients run. Never rejects for a violation: it counts them. */
export async function soak(options: SoakOptions): Promise<readonly SoakCounts[]> {
  const backends = options.backends ?? SOAKED;
  const end = new AbortController();
  const counts = new Map<StageName, () => SoakCounts>();
  let timer: NodeJS.Timeout | undefined;
  const progress = setInterval(() => options.onProgress?.([...counts.values()].map((count) => count())), PROGRESS_MS);
  const started = (backend: StageName, count: () => SoakCounts): void => {
    counts.set(backend, count);
    if (counts.size === backends.length) timer = setTimeout(() => end.abort(), options.minutes * 60_000);
  };
  try {
    return await Promise.all(
      backends.map((backend, i) =>
        soakOne(backend, options.seed * 1000 + i, end.signal, (count) => started(backend, count)),
      ),
    );
  } finally {
    end.abort();
    clearTimeout(timer);
    clearInterval(progress);
  }
}

async function soakOne(
  backend: StageName,
  seed: number,
  signal: AbortSignal,
  started: (count: () => SoakCounts) => void,
): Promise<SoakCounts> {
  await using stage = await openSoakStage(backend, TTL_MS);
  const observers = await stage.observe();
  const clients = new SoakClients(stage, {
    seed,
    ttlMs: TTL_MS,
    epochMs: EPOCH_MS,
    clients: backend === "memory" ? 1 : 3,
  });
  const { record } = clients;
  const leaks = { keys: [] as readonly string[], handles: [] as readonly string[], unconfirmed: 0 };
  const count = (): SoakCounts => ({
    backend,
    sections: record.sections,
    refusals: record.refusals,
    refusedWrites: record.refusedWrites,
    unjudged: record.tooLate,
    faults: Object.fromEntries([...record.faults].toSorted()),
    spares: stage.spares,
    violations: record.violations.map((violation) => record.describe(violation)),
    leakedKeys: leaks.keys,
    leakedHandles: leaks.handles,
    unconfirmed: leaks.unconfirmed,
  });
  const judging = setInterval(() => record.judge(), EPOCH_MS);
  try {
    await clients.start();
    started(count);
    await injectFaults(
      { victims: clients.victims, servers: stage.servers, kinds: soakFaults(backend), ttlMs: TTL_MS },
      record,
      seeded(seed),
      signal,
    );
    const end = await judgeEnd(observers, () => clients.stop());
    leaks.handles = end.findings;
    leaks.unconfirmed = end.unconfirmed;
    leaks.keys = await leftIn(stage, observers);
    record.judge(true);
    return count();
  } finally {
    clearInterval(judging);
    await clients.kill();
    await Promise.all(observers.map((observer) => observer.close()));
  }
}

/** What the store shows, and what else is in it. */
async function leftIn(stage: Stage, observers: readonly Observer[]): Promise<readonly string[]> {
  const look = async (): Promise<readonly string[]> => {
    const seen = await Promise.all(observers.map((one) => leftToSee({ query: (prefix) => one.look(prefix) }, "soak:")));
    return [...seen.flat(), ...(await stage.left())];
  };
  return atLast(look, RUN_OUT_MS);
}
