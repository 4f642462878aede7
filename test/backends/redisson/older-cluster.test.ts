/** A Cluster of servers before Redis 7, which know no sharded channels: each side still wakes the other. */
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redisson } from "../../../src/backends/redisson/index.ts";
import { startRedis, type RedisServer } from "../../../src/lab/servers/redis.ts";
import { granted } from "../../../src/testing/attempts.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { PASSWORD } from "../../login.ts";
import { libraries } from "../redis/clients.ts";
import { Java } from "./java.ts";
import { claimOf, waits } from "./lab.ts";

/** What Redis 7 brought. A server without these answers as one that never knew them. */
const NEW_COMMANDS = ["SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE"];

let server: RedisServer;
let raw: Cluster;
beforeAll(async () => {
  const args = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  const without = NEW_COMMANDS.flatMap((command) => ["--rename-command", command, ""]);
  server = await startRedis({ args: [...args, ...without] });
  await server.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await eventually("the cluster serves", async () =>
    (await server.cli("CLUSTER", "INFO")).includes("cluster_state:ok") ? true : undefined,
  );
  raw = new Cluster([{ host: server.host, port: server.port }], { redisOptions: { password: PASSWORD } });
});
afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

test("the server knows no sharded channels", async () => {
  for (const command of NEW_COMMANDS) await expect(server.cli(command, "x", "0")).rejects.toThrow(/unknown command/u);
});

test.each(Object.values(libraries))("with $name, Java wakes ours, and ours wake Java (S113)", async (library) => {
  const opened = await library.cluster({ nodes: [server] });
  const backend = redisson(opened.client);
  const listener = new Redis({ port: server.port, password: PASSWORD });
  try {
    const java = new Java(raw, "PUBLISH");
    const name = `older, ${library.name}`;
    const claim = claimOf(name, { queues: true });
    expect(await java.tryLock(name)).toBe(true);
    await waits(backend, claim);
    const news = backend.watch(claim, new AbortController().signal);
    expect(await java.unlock(name)).toBe(1);
    await news;
    await granted(backend, claim);

    const heard: string[] = [];
    listener.on("message", (_, text: string) => void heard.push(text));
    await listener.subscribe(`redisson_lock__channel:{${name}}`);
    expect(await backend.release(claim)).toBe("held");
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(heard).toEqual(["0"]);
    // Who waits in Java is given its turn: the lock was left to it.
    expect(await raw.hexists(`{${name}}:holdfast`, "left")).toBe(1);
  } finally {
    listener.disconnect();
    await backend.close();
    await opened.close();
  }
});
