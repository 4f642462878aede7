import "../fixed-seed.ts";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { LockLostError } from "../../src/contract/errors.ts";
import { FenceRejectedError, MAX_FENCE } from "../../src/fence/index.ts";
import {
  writeFenced,
  writeWhileHeld,
  type ZooKeeperLike,
  type ZooKeeperPart,
} from "../../src/fence/zookeeper/index.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../src/lab/servers/zookeeper.ts";
import { createLocks } from "../../src/core/locks.ts";
import { zookeeper as zookeeperBackend, ZooKeeperClient } from "../../src/backends/zookeeper/index.ts";
import { eventually } from "../backends/zookeeper/claims.ts";
import { rejectionsOf } from "./rejections.ts";
import { greatest, race, rises, writers } from "./writers.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;
const EMPTY = new Uint8Array();

let lab: ZooKeeperLab;
/** Each talks to another server of the ensemble, so one may not have seen what another wrote. */
let clients: ZooKeeperClient[];
let zookeeper: ZooKeeperClient;
let folder: string;
let tests = 0;

beforeAll(async () => {
  lab = await startZooKeeper({ servers: 3 });
  clients = lab.servers.map(({ port }) => new ZooKeeperClient({ servers: `127.0.0.1:${port}` }));
  zookeeper = clients[0] as ZooKeeperClient;
});

afterAll(async () => {
  await Promise.all(clients?.map((client) => client.close()) ?? []);
  await lab?.stop();
});

beforeEach(async () => {
  folder = `/test-${tests++}`;
  await zookeeper.create(folder, EMPTY, "persistent");
  await zookeeper.create(`${folder}/data`, Buffer.from("0"), "persistent");
});

const at = (fence: bigint): { name: string; fence: bigint } => ({ name: `invoice:${folder}`, fence });
const set = (text: string): ZooKeeperPart[] => [
  { op: "setData", path: `${folder}/data`, data: Buffer.from(text), version: -1 },
];
const read = async (): Promise<string> => (await zookeeper.getData(`${folder}/data`)).data.toString();

describe("writeFenced", () => {
  test("accepts a rising fence and an equal one, refuses a lower one, and leaves the data alone then", async () => {
    expect(await writeFenced(zookeeper, at(34n), set("a"))).toHaveLength(1);
    await writeFenced(zookeeper, at(34n), set("b"));
    const stale = writeFenced(zookeeper, at(33n), set("stale"));
    await expect(stale).rejects.toMatchObject({ code: "ERR_FENCE_REJECTED", current: 34n, offered: 33n });
    expect(await read()).toBe("b");
    await writeFenced(zookeeper, at(35n), set("c"));
    expect(await read()).toBe("c");
  });

  test("distinguishes neighbours above 2^53", async () => {
    await writeFenced(zookeeper, at(BEYOND_DOUBLES), set("a"));
    await expect(writeFenced(zookeeper, at(BEYOND_DOUBLES - 1n), set("b"))).rejects.toBeInstanceOf(FenceRejectedError);
    expect(await read()).toBe("a");
  });

  test("does not raise the mark when another part fails, and says what failed", async () => {
    await writeFenced(zookeeper, at(10n), []);
    const broken: ZooKeeperPart[] = [{ op: "delete", path: `${folder}/absent`, version: -1 }];
    await expect(writeFenced(zookeeper, at(20n), broken)).rejects.toMatchObject({ code: "NONODE" });
    await writeFenced(zookeeper, at(15n), set("a"));
    expect(await read()).toBe("a");
  });

  test("keeps marks of all names apart, below the node that was asked for", async () => {
    const marks = `${folder}/marks`;
    for (const name of ["", ".", "..", "%", "a/b", "a%2Fb", "ü💡"]) {
      await writeFenced(zookeeper, { name, fence: 34n }, [], { marks });
      const stale = writeFenced(zookeeper, { name, fence: 33n }, [], { marks });
      await expect(stale).rejects.toMatchObject({ lock: name, current: 34n });
    }
    expect((await zookeeper.getChildren(marks)).children).toHaveLength(7);
  });

  test("never takes other data in the mark's node for a fence", async () => {
    const marks = `${folder}/marks`;
    await writeFenced(zookeeper, { name: "a", fence: 1n }, [], { marks });
    await zookeeper.setData(`${marks}/a`, Buffer.from("1e9"));
    await expect(writeFenced(zookeeper, { name: "a", fence: 34n }, set("x"), { marks })).rejects.toThrow(
      /hold a fence/,
    );
    expect(await read()).toBe("0");
  });

  test("never lets an older fence win, whatever the pauses and whichever server is asked", async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        const lock = `race:${folder}:${run}`;
        const journal = `${folder}/journal-${run++}`;
        await zookeeper.create(journal, EMPTY, "persistent");
        await Promise.all(clients.map((client) => client.sync(journal)));
        const accepted = await race(all, ({ fence }, index) =>
          writeFenced(clients[index % clients.length] as ZooKeeperClient, { name: lock, fence }, [
            { op: "create", path: `${journal}/${index}-${fence}`, data: EMPTY, mode: "persistent" },
          ]),
        );
        expect(rises(await inOrder(journal))).toBe(true);
        expect(greatest(accepted)).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 20 },
    );
  });

  /** The fences of the journal in the order in which ZooKeeper carried out their transactions. */
  async function inOrder(journal: string): Promise<bigint[]> {
    await zookeeper.sync(journal);
    const { children } = await zookeeper.getChildren(journal);
    const made = await Promise.all(
      children.map(async (child) => ({
        fence: BigInt(child.split("-")[1] ?? ""),
        czxid: (await zookeeper.exists(`${journal}/${child}`))?.czxid ?? 0n,
      })),
    );
    return made.toSorted((a, b) => (a.czxid < b.czxid ? -1 : 1)).map(({ fence }) => fence);
  }

  test("publishes a refusal", async () => {
    await writeFenced(zookeeper, at(34n), []);
    const events = await rejectionsOf(() => writeFenced(zookeeper, at(33n), []).catch(() => {}));
    expect(events).toEqual([{ guard: "zookeeper", name: `invoice:${folder}`, current: 34n, offered: 33n }]);
  });

  test("keeps the mark when a server is killed", async () => {
    await writeFenced(zookeeper, at(34n), set("a"));
    await lab.servers[2]?.restart();
    const all = lab.servers.map(({ port }) => `127.0.0.1:${port}`).join(",");
    const fresh = new ZooKeeperClient({ servers: all });
    try {
      await expect(writeFenced(fresh, at(33n), set("b"))).rejects.toMatchObject({ current: 34n });
    } finally {
      await fresh.close();
    }
    // It may have led the others: the next test needs them all.
    for (const client of clients) {
      await eventually("its server serves again", () =>
        client.sync("/").then(
          () => true,
          () => undefined,
        ),
      );
    }
  });

  test("closed by a huge fence is opened by the reset of the docs (S175)", async () => {
    await writeFenced(zookeeper, at(MAX_FENCE), set("a"));
    await expect(writeFenced(zookeeper, at(34n), set("b"))).rejects.toBeInstanceOf(FenceRejectedError);
    await zookeeper.delete(`/holdfast-fences/${encodeURIComponent(at(34n).name)}`);
    await writeFenced(zookeeper, at(34n), set("c"));
    await expect(writeFenced(zookeeper, at(33n), set("d"))).rejects.toMatchObject({ current: 34n });
    expect(await read()).toBe("c");
  });
});

describe("writeWhileHeld", () => {
  test("writes while the lock's node is there, from any server, and not once it is gone", async () => {
    const lock = `${folder}/lock`;
    await zookeeper.create(lock, EMPTY, "persistent");
    const mine = await zookeeper.create(`${lock}/_c_1-lock-`, EMPTY, "ephemeralSequential");
    await zookeeper.create(`${lock}/_c_2-lock-`, EMPTY, "ephemeralSequential");
    const lease = at(mine.stat.czxid);
    for (const client of clients) {
      expect(await writeWhileHeld(client, lock, lease, set("held"))).toHaveLength(1);
    }
    await zookeeper.delete(mine.path);
    for (const client of clients) {
      await expect(writeWhileHeld(client, lock, lease, set("stale"))).rejects.toBeInstanceOf(LockLostError);
    }
    expect(await read()).toBe("held");
    await expect(writeWhileHeld(zookeeper, `${folder}/none`, lease, set("x"))).rejects.toBeInstanceOf(LockLostError);
  });

  test("finds the node of a ZooKeeper lease by its fence, at the path of the lock", async () => {
    const locks = createLocks(
      zookeeperBackend({ servers: lab.servers.map(({ port }) => `127.0.0.1:${port}`).join(",") }),
    );
    try {
      const lease = await locks.acquire("invoice:42");
      await writeWhileHeld(zookeeper, "/holdfast/invoice:42", lease, set("held"));
      await writeFenced(zookeeper, lease, set("held and marked"));
      await lease.release();
      await expect(writeWhileHeld(zookeeper, "/holdfast/invoice:42", lease, set("x"))).rejects.toThrow(LockLostError);
      expect(await read()).toBe("held and marked");
      await locks.run("invoice:42", (next) => writeFenced(zookeeper, next, set("next")));
      await expect(writeFenced(zookeeper, lease, set("x"))).rejects.toThrow(FenceRejectedError);
      expect(await read()).toBe("next");
    } finally {
      await locks.close();
    }
  });

  test("writes nothing when the node is deleted between the read and the write", async () => {
    const lock = `${folder}/lock`;
    await zookeeper.create(lock, EMPTY, "persistent");
    const mine = await zookeeper.create(`${lock}/_c_1-lock-`, EMPTY, "ephemeralSequential");
    const paused: ZooKeeperLike = {
      getData: (path) => zookeeper.getData(path),
      getChildren: (path) => zookeeper.getChildren(path),
      exists: (path) => zookeeper.exists(path),
      makePath: (path, mode) => zookeeper.makePath(path, mode),
      sync: (path) => zookeeper.sync(path),
      multi: async (parts) => {
        await zookeeper.delete(mine.path);
        return zookeeper.multi(parts);
      },
    };
    await expect(writeWhileHeld(paused, lock, at(mine.stat.czxid), set("stale"))).rejects.toBeInstanceOf(LockLostError);
    expect(await read()).toBe("0");
  });
});
