/** In a cluster: older versions of Redisson publish to all nodes, newer ones on sharded channels. Both wake ours, and ours wake both. */
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redisson, type RedissonBackend } from "../../../src/backends/redisson/index.ts";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { granted, refused } from "../../../src/testing/attempts.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { PASSWORD } from "../../login.ts";
import { type Library, libraries } from "../redis/clients.ts";
import { Java } from "./java.ts";
import { claimOf, waits } from "./lab.ts";

let lab: ClusterLab;
let raw: Cluster;
const closing: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  lab = await startCluster();
  raw = new Cluster(
    lab.nodes.map(({ port }) => ({ host: "127.0.0.1", port })),
    { redisOptions: { password: PASSWORD } },
  );
});
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
  raw.disconnect();
  await lab.stop();
});

async function backendOf(library: Library): Promise<RedissonBackend> {
  const opened = await library.cluster(lab);
  const backend = redisson(opened.client);
  closing.push(opened.close, () => backend.close());
  return backend;
}

describe.each(Object.values(libraries))("with $name", (library) => {
  test.each(["PUBLISH", "SPUBLISH"] as const)("a release by %s wakes ours, without a poll (S113)", async (verb) => {
    const [backend, java] = [await backendOf(library), new Java(raw, verb)];
    const name = `woken by ${verb}, ${library.name}`;
    expect(await java.tryLock(name)).toBe(true);
    const claim = claimOf(name, { queues: true });
    await waits(backend, claim);
    const news = backend.watch(claim, new AbortController().signal);
    expect(await java.unlock(name)).toBe(1);
    await news;
    await granted(backend, claim);
    await backend.release(claim);
  });

  test("our release is reported on both kinds of channels", async () => {
    const backend = await backendOf(library);
    const claim = claimOf(`reported, ${library.name}`);
    const { port } = await lab.primaryOf(claim.name);
    const listener = new Redis({ port, password: PASSWORD });
    closing.push(async () => listener.disconnect());
    const heard: string[] = [];
    listener.on("message", (_, text: string) => void heard.push(`classic ${text}`));
    listener.on("smessage", (_, text: string) => void heard.push(`sharded ${text}`));
    await listener.subscribe(`redisson_lock__channel:{${claim.name}}`);
    await listener.ssubscribe(`redisson_lock__channel:{${claim.name}}`);
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    await eventually("both messages", () => (heard.length >= 2 ? true : undefined));
    expect(heard.toSorted()).toEqual(["classic 0", "sharded 0"]);
  });

  test("a claim that waits gets the lock although its slot has moved meanwhile", async () => {
    const [backend, java] = [await backendOf(library), new Java(raw, "SPUBLISH")];
    const claim = claimOf(`moved, ${library.name}`, { queues: true });
    await java.tryLock(claim.name);
    await waits(backend, claim);
    await lab.moveSlot(claim.name);
    await refused(backend, claim);
    await waits(backend, claim);
    const news = backend.watch(claim, new AbortController().signal);
    await java.unlock(claim.name);
    await news;
    await granted(backend, claim);
  });
});

test("a name whose braces put its keys into different slots is refused, as it is of no use in Java", async () => {
  const backend = await backendOf(libraries.ioredis6);
  for (const name of ["a{b", "x{}y", "a}b"]) {
    await expect(backend.attempt(claimOf(name))).rejects.toThrow(/different slots/u);
  }
  await granted(backend, claimOf("order:{42}:lock"));
});
