/** What `show` and `ls` say of one lock beyond its holder: who waits or reads in other processes, what is left of a lease, an outcome. */
import { afterAll, expect, test } from "vitest";
import { connect } from "../../src/connect.ts";
import type { Lease, Locks } from "../../src/core/api.ts";
import { gate } from "../core/scripted.ts";
import { Bench, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

interface Shown {
  readonly held: readonly {
    readonly processHolders: number;
    readonly processWaiters: number;
    readonly remainder?: string;
  }[];
  readonly pending: readonly { readonly processWaiters: number; readonly id: string }[];
  readonly outcome?: { readonly bytes: number; readonly fence: string; readonly value?: unknown };
}

async function shown(name: string): Promise<Shown> {
  return JSON.parse((await bench.run(["show", name, "--json"])).stdout) as Shown;
}

test("how many wait or read in other processes", async () => {
  await using locks = await connect(bench.url, { wait: Infinity });
  const { opened, open } = gate();
  // What is shown goes out with the renewals, and with these.
  const jobs = [1, 2, 3].map(() =>
    locks.run("job", async (lease) => {
      await lease.extend();
      await opened;
    }),
  );
  const readers = await readersOfOneLease(locks, opened);
  await until(async () => (await shown("job")).held[0]?.processWaiters === 2, "those behind the lease are counted");
  await until(async () => (await shown("books")).held[0]?.processHolders === 3, "readers are counted");
  expect((await bench.run(["show", "job"])).stdout).toMatch(/waiting\s+2 in its process/u);
  expect((await bench.run(["show", "books"])).stdout).toMatch(/shared by\s+3 leases of its process/u);
  expect((await bench.run(["ls", "job"])).stdout).toMatch(/ 2\n$/u);
  open();
  await Promise.all([...jobs, ...readers]);
});

/** Three readers on one lease. A process that was held up in the middle of handing it out has two, and begins again. */
async function readersOfOneLease(locks: Locks, opened: Promise<void>): Promise<readonly Promise<void>[]> {
  for (;;) {
    const { opened: given, open: giveUp } = gate();
    const leases: Lease[] = [];
    const works = [1, 2, 3].map(() =>
      locks.run("books", { mode: "shared" }, async (lease) => {
        leases.push(lease);
        await Promise.race([opened, given]);
      }),
    );
    await until(() => leases.length === 3, "all three read");
    if ((await locks.query("books")).held.length === 1) {
      await leases[0]!.extend();
      return works;
    }
    giveUp();
    await Promise.all(works);
  }
}

test("what is left of a minHold, and what once() keeps without its value", async () => {
  const locks = await connect(bench.url);
  const lease = await locks.acquire("slot", { minHold: "1h" });
  await lease.release();
  await locks.once("report", { keep: "1h" }, () => "confidential");
  await locks.close();
  expect((await shown("slot")).held).toMatchObject([{ remainder: "minHold" }]);
  const text = (await bench.run(["show", "slot"])).stdout;
  expect(text).toMatch(/was held by/u);
  expect(text).toMatch(/--min-hold/u);
  const { outcome } = await shown("report");
  expect(outcome).toMatchObject({ bytes: 15, fence: expect.any(String) as unknown });
  const said = (await bench.run(["show", "report"])).stdout + (await bench.run(["show", "report", "--json"])).stdout;
  expect(said).toMatch(/once +done .* ago by .*15 bytes are kept/u);
  expect(said).not.toContain("confidential");
  await using again = await connect(bench.url);
  await again.forceRelease("slot", { fence: lease.fence, reason: "the test is over" });
});
