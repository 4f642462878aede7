import "../fixed-seed.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LockLostError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { FenceRejectedError, MAX_FENCE } from "../../src/fence/index.ts";
import { type EtcdLike, type EtcdWrite, writeFenced, writeWhileHeld } from "../../src/fence/etcd/index.ts";
import { type EtcdLab, startEtcd } from "../../src/lab/servers/etcd.ts";
import { etcd as etcdBackend, EtcdClient } from "../../src/backends/etcd/index.ts";
import { rejectionsOf } from "./rejections.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;
const DATA = Buffer.from("/data");

let lab: EtcdLab;
let etcd: EtcdClient;
let tests = 0;

beforeAll(async () => {
  lab = await startEtcd();
  etcd = new EtcdClient({ endpoints: lab.endpoints });
});

afterAll(async () => {
  await etcd.close();
  await lab.stop();
});

const set = (text: string): EtcdWrite[] => [{ put: { key: DATA, value: Buffer.from(text), lease: 0n } }];
const read = async (): Promise<string> => (await etcd.range({ key: DATA })).kvs[0]?.value.toString() ?? "";
const nameOf = (): string => `invoice:${tests++}/%`;

describe("writeFenced", () => {
  test("accepts a rising fence and an equal one, refuses a lower one, and leaves the data alone then (S93)", async () => {
    const name = nameOf();
    await writeFenced(etcd, { name, fence: 34n }, set("a"));
    await writeFenced(etcd, { name, fence: 34n }, set("b"));
    const stale = writeFenced(etcd, { name, fence: 33n }, set("stale"));
    await expect(stale).rejects.toMatchObject({ code: "ERR_FENCE_REJECTED", current: 34n, offered: 33n });
    expect(await read()).toBe("b");
    await writeFenced(etcd, { name, fence: 35n }, set("c"));
    expect(await read()).toBe("c");
  });

  test("compares numbers beyond 2^53, up to the greatest", async () => {
    const name = nameOf();
    await writeFenced(etcd, { name, fence: BEYOND_DOUBLES }, set("a"));
    await expect(writeFenced(etcd, { name, fence: BEYOND_DOUBLES - 1n }, set("b"))).rejects.toBeInstanceOf(
      FenceRejectedError,
    );
    await writeFenced(etcd, { name, fence: MAX_FENCE }, set("c"));
    await expect(writeFenced(etcd, { name, fence: MAX_FENCE - 1n }, [])).rejects.toMatchObject({ current: MAX_FENCE });
  });

  test("under a race lets the mark only rise, and the last word is the greatest fence's", async () => {
    const name = nameOf();
    const fences = Array.from({ length: 20 }, (_, i) => BigInt((i * 7) % 20) + 1n);
    const clients = [1, 2, 3].map(() => new EtcdClient({ endpoints: lab.endpoints }));
    const outcomes = await Promise.allSettled(
      fences.map((fence, i) => writeFenced(clients[i % 3] as EtcdClient, { name, fence }, set(String(fence)))),
    );
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(FenceRejectedError);
    }
    expect(await read()).toBe("20");
    await Promise.all(clients.map((client) => client.close()));
  });

  test("never guesses: a mark that is no number, or a fence that is none, stops it", async () => {
    const name = nameOf();
    await writeFenced(etcd, { name, fence: 1n }, set("a"));
    const [mark] = (
      await etcd.range({ key: Buffer.from("/holdfast-fences/"), end: Buffer.from("/holdfast-fences0") })
    ).kvs.slice(-1);
    await etcd.txn({ when: [], success: [{ put: { key: mark?.key ?? DATA, value: Buffer.from("12x"), lease: 0n } }] });
    await expect(writeFenced(etcd, { name, fence: 9n }, set("b"))).rejects.toThrow(/to hold a fence/);
    await expect(writeFenced(etcd, { name, fence: -1n }, set("b"))).rejects.toThrow(TypeError);
    expect(await read()).toBe("a");
  });

  test("gives up after a hundred lost races, with nothing written", async () => {
    let asked = 0;
    const unlucky: EtcdLike = {
      range: async () => ({ kvs: [] }),
      txn: async () => {
        asked++;
        return { succeeded: false };
      },
    };
    await expect(writeFenced(unlucky, { name: "x", fence: 1n }, [])).rejects.toThrow(/kept changing/);
    expect(asked).toBe(100);
  });

  test("tells of a refusal as an event", async () => {
    const name = nameOf();
    await writeFenced(etcd, { name, fence: 5n }, []);
    const events = await rejectionsOf(() => writeFenced(etcd, { name, fence: 4n }, []).catch(() => undefined));
    expect(events).toMatchObject([{ guard: "etcd", offered: 4n, current: 5n }]);
  });
});

describe("writeWhileHeld", () => {
  test("writes while the lease's key is there, and never after (S72)", async () => {
    const backend = etcdBackend({ endpoints: lab.endpoints });
    const locks = createLocks(backend);
    const lease = await locks.acquire("ledger");
    await writeWhileHeld(etcd, "/holdfast/ledger", lease, set("held"));
    expect(await read()).toBe("held");
    await locks.forceRelease("ledger", { fence: lease.fence, reason: "test" });
    const next = await locks.acquire("ledger", { wait: "30s" });
    await writeWhileHeld(etcd, "/holdfast/ledger", next, set("next"));
    await expect(writeWhileHeld(etcd, "/holdfast/ledger", lease, set("stale"))).rejects.toBeInstanceOf(LockLostError);
    expect(await read()).toBe("next");
    await next.release();
    await expect(writeWhileHeld(etcd, "/holdfast/ledger", next, set("late"))).rejects.toBeInstanceOf(LockLostError);
    await locks.close();
  });
});
