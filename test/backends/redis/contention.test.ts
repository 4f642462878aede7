/** contention() over a real Redis: waits of this process for leases of others, by their names and reasons. */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { LockContention } from "../../../src/core/contention-api.ts";
import type { Locks } from "../../../src/core/api.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import { DIST } from "../../dist.ts";
import { Clients, eventually } from "./lab.ts";

/** Another process that wants the lock, and has it until a message says to let go. */
class Other {
  readonly #child: ChildProcess;
  readonly held: Promise<void>;

  constructor(testClients: Clients, port: number, name: string, reason: string) {
    this.#child = fork(join(import.meta.dirname, "lease-process.mjs"), [DIST, String(port), name, reason]);
    testClients.later(() => this.#child.kill("SIGKILL"));
    this.held = new Promise((resolve) => this.#child.once("message", () => resolve()));
  }

  get holder(): string {
    return `other:${this.#child.pid}`;
  }

  release(): void {
    this.#child.send("release");
  }
}

async function figures(locks: Locks): Promise<LockContention | undefined> {
  return (await locks.contention()).locks[0];
}

test("a wait is split between the processes that held the lock, by holder and reason", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const locks = createLocks(testClients.backend(own.port), { holder: "here:1" });
  await locks.contention();
  const first = new Other(testClients, own.port, "a", "import");
  await first.held;
  const second = new Other(testClients, own.port, "a", "report");
  await eventually("the second waits", async () => (await locks.query("a")).pending.length === 1 || undefined);
  const mine = locks.acquire("a", { wait: Infinity, ttl: "1s" });
  await eventually("it is known who is in the way", async () => (await figures(locks))?.holders[0]);
  expect((await figures(locks))?.holders).toMatchObject([{ holder: first.holder, reason: "import", waits: 1 }]);
  first.release();
  await second.held;
  // The next word of the store says so, and since when.
  await eventually("the second is known", async () =>
    (await figures(locks))?.holders.find((one) => one.reason === "report"),
  );
  second.release();
  await (await mine).release();
  const seen = (await figures(locks))!;
  const byReason = new Map(seen.holders.map((one) => [one.reason, one]));
  expect(byReason.get("report")).toMatchObject({ holder: second.holder, waits: 1 });
  expect([...byReason.keys()].toSorted()).toEqual(["import", "report"]);
  expect(seen).toMatchObject({ acquires: 1, contended: 1, waiting: 0, lost: 0, hold: { count: 1 } });
  const parts = seen.holders.reduce((sum, { waitMs }) => sum + waitMs, seen.unknownMs);
  expect(parts).toBeCloseTo(seen.waitMs, 1);
  expect(seen.wait.maxMs).toBeCloseTo(seen.waitMs, 1);
  await locks.close();
});
