/** The driver itself: its schedules come from the seed alone, its judges can find, and a short run on cheap stores finds nothing. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/core/api.ts";
import type { Backend, Snapshot } from "../../src/contract/backend.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import { castHere } from "../../src/lab/drive/cast.ts";
import { type Holdfast, loadHoldfast } from "../../src/lab/drive/library.ts";
import { playRound, type RoundResult } from "../../src/lab/drive/round.ts";
import { type Possibilities, scheduleOf, type Take } from "../../src/lab/drive/schedule.ts";
import type { DrivenStore } from "../../src/lab/drive/store.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { BUILD } from "../dist.ts";

const POSSIBLE: Possibilities = {
  clients: 3,
  servers: 1,
  serverActs: [],
  processActs: [],
  network: false,
  limits: true,
  // Most leases outlive a process that gets no processor for a while; a round takes some of these.
  ttls: [1200],
};

/** A store in memory under the driver, where `broken` replaces what is to be found. */
function memoryDriven(holdfast: Holdfast, broken: (right: Backend) => Partial<Backend>): DrivenStore {
  const store = memoryStore();
  const open = (holder: string): Locks => {
    const right = memory({ store });
    const changes = broken(right);
    const wrong = new Proxy(right, {
      get: (target, property) => {
        const value: unknown = changes[property as keyof Backend] ?? target[property as keyof Backend];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    return holdfast.createLocks(wrong, { holder });
  };
  const look = async (prefix: string): Promise<Snapshot> => store.query(prefix);
  const nothing = async (): Promise<void> => undefined;
  const client = async (): ReturnType<DrivenStore["client"]> => ({
    proxies: [],
    open,
    listeners: () => 0,
    close: nothing,
  });
  return {
    name: "redis",
    possible: POSSIBLE,
    client,
    look,
    strike: nothing,
    calm: nothing,
    leaks: async () => [],
    stop: nothing,
    [Symbol.asyncDispose]: nothing,
  };
}

async function play(seed: number, broken: (right: Backend) => Partial<Backend>): Promise<RoundResult> {
  const holdfast = await loadHoldfast();
  return playRound(memoryDriven(holdfast, broken), seed, (store, report, terms) =>
    castHere(store, holdfast, report, terms),
  );
}

const rulesOf = ({ findings }: RoundResult): readonly string[] => findings.map(({ rule }) => rule);

describe("a schedule", () => {
  const possible: Possibilities = { ...POSSIBLE, network: true, serverActs: ["pause"] };

  test("is the same for the same seed, and another for another", () => {
    expect(scheduleOf(7, possible)).toEqual(scheduleOf(7, possible));
    expect(scheduleOf(8, possible)).not.toEqual(scheduleOf(7, possible));
  });

  test("has every kind of act, and stalls commands and messages apart from each other", () => {
    const acts = Array.from({ length: 60 }, (_, seed) => scheduleOf(seed, possible).steps.map(({ act }) => act)).flat();
    const kinds = new Set(acts.map((act) => act.do));
    for (const kind of [
      "take",
      "force",
      "block",
      "close",
      "stall",
      "overtake",
      "reset",
      "lose",
      "slow",
      "refuse",
      "server",
    ])
      expect(kinds, kind).toContain(kind);
    const stalled = acts.flatMap((act) => (act.do === "stall" ? [act.which] : []));
    expect(new Set(stalled)).toEqual(new Set(["commands", "messages", "all"]));
  });
});

describe("a schedule where holds can linger", () => {
  const lingers: Possibilities = { ...POSSIBLE, linger: true };
  const takes = (seed: number, possible: Possibilities): readonly Take[] =>
    scheduleOf(seed, possible).steps.flatMap(({ act }) => (act.do === "take" ? [act] : []));

  test("is what it was without, and some rounds linger", () => {
    let lingering = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const all = takes(seed, lingers);
      if (all.some(({ lingerMs }) => lingerMs !== undefined)) lingering++;
      // toEqual() takes what is undefined for absent.
      expect(all.map((take) => ({ ...take, lingerMs: undefined }))).toEqual(takes(seed, POSSIBLE));
    }
    expect(lingering).toBeGreaterThan(15);
    expect(lingering).toBeLessThan(45);
  });

  test("asks for nothing that its arguments refuse", async () => {
    const holdfast = await loadHoldfast();
    const locks = holdfast.createLocks(memory());
    for (let seed = 1; seed <= 20; seed++) {
      for (const { lingerMs, ttlMs, mode, limit, renews, maxHoldMs } of takes(seed, lingers)) {
        if (lingerMs === undefined) continue;
        const terms = { ttl: ttlMs, mode, limit, renew: renews, maxHold: maxHoldMs, linger: lingerMs };
        await (await locks.acquire("any", terms)).release();
      }
    }
    await locks.close();
  });
});

describe.concurrent("the driver finds", () => {
  test("nothing where nothing is wrong", async () => {
    const result = await play(3, () => ({}));
    expect(result.findings).toEqual([]);
    expect(result.counts.get("leases")).toBeGreaterThan(10);
  });

  test("two who believe at once, with the step", async () => {
    // Every claim gets the lock, each with a fence of its own.
    let fence = 1n;
    const result = await play(3, () => ({ attempt: async () => ({ granted: true, fence: fence++, run: 1 }) }));
    const found = result.findings.find(({ rule }) => rule === "O1 exclusion");
    expect(found?.message).toMatch(/believes it holds the lock, and so does .* held /u);
    expect(found?.step).toBeGreaterThan(0);
  });

  test("fences that do not rise", async () => {
    const result = await play(3, (right) => ({
      attempt: async (claim) => {
        const answer = await right.attempt(claim);
        return answer.granted ? { ...answer, fence: 5n, run: 1 } : answer;
      },
      watch: async (_, signal) =>
        new Promise((resolve) => signal.addEventListener("abort", () => resolve(undefined), { once: true })),
    }));
    expect(rulesOf(result)).toContain("fences");
  });

  test("what close() leaves behind", async () => {
    const result = await play(3, () => ({ release: async () => "held" as const }));
    expect(rulesOf(result)).toContain("left after close");
  });

  test("a loss that is none", async () => {
    const result = await play(3, (right) => ({
      release: async (claim) => {
        await right.release(claim);
        return "absent" as const;
      },
      swap: async (held, next) => ({ ...(await right.swap!(held, next)), released: "absent" as const }),
    }));
    expect(rulesOf(result)).toContain("lost though held");
  });

  test("an error that may not come", async () => {
    const result = await play(3, (right) => ({
      attempt: (claim) => {
        const fatal = new LockBackendError("memory", claim.name, "oops", { fatal: true });
        return claim.name.endsWith("books") ? Promise.reject(fatal) : right.attempt(claim);
      },
    }));
    expect(rulesOf(result)).toContain("unexpected error");
  });
});

/** Processes and servers as users get them; the campaign is `npm run drive`. */
describe("a short drive with fixed seeds finds nothing", () => {
  const rows = [
    ["redis", "ioredis"],
    ["redis", "node-redis"],
    ["file", "ioredis"],
  ] as const;
  test.concurrent.for(rows)("on %s (%s)", { timeout: 180_000 }, async ([store, client]) => {
    const { drive } = (await import(
      join(BUILD, "lab/drive/drive.js")
    )) as typeof import("../../src/lab/drive/drive.ts");
    // On a machine that is busy with other things, all calls of a round may come too late: then another one counts.
    let leases = 0;
    for (let seed = 52; leases === 0; seed++) {
      const summary = await drive({ store, client, seed, seconds: 60, rounds: 1, alone: false });
      expect(summary.findings).toEqual([]);
      expect(summary.faults).toBeGreaterThan(0);
      leases = summary.counts["leases"] ?? 0;
    }
  });
});
