/** A primary that stood still while it was cut off from its replicas: when it wakes, its own count of them is as old as the stop. */
import { expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { beat } from "../../../src/backends/redis/generated/scripts.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { quarantineText, toSettings } from "../../../src/backends/redis/options.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, sleep } from "./lab.ts";

const GUARDED = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1", "--repl-diskless-sync-delay", "0"];
const QUARANTINE: RedisOptions = { failover: "quarantine", maxTtl: "1m", maxLag: "3s" };
/** Longer than `maxLag`, by the whole seconds of INFO. */
const STOPPED_MS = 4500;

/** Asks until the server has a replica: on a busy machine that may be late for more than the second that it gets. */
function whileReplicated<T>(ask: () => Promise<T>): Promise<T> {
  return eventually("the replica is there", async () => {
    try {
      return { answer: await ask() };
    } catch (error) {
      if (/too few replicas|NOREPLICAS/u.test((error as Error).message)) return undefined;
      throw error;
    }
  }).then(({ answer }) => answer);
}

test("S159: it neither grants nor prolongs anything, whatever was sent to it meanwhile", async () => {
  await using testClients = new Clients();
  const server = await startRedis({ args: GUARDED });
  testClients.later(() => server.stop());
  const link = await startProxy({ port: server.port });
  testClients.later(() => link.stop());
  const replica = await startRedis({ args: [...GUARDED, "--replicaof", `127.0.0.1 ${link.port}`] });
  testClients.later(() => replica.stop());
  await eventually("the replica is online", async () =>
    (await server.cli("INFO", "replication")).includes("state=online") ? true : undefined,
  );
  const users = await Promise.all(
    // The last one's client has a prefix of its own for keys.
    [...Object.values(libraries), ...Object.values(libraries).slice(0, 1)].map(async (library, at, all) => {
      const [extra, prefix] = at === all.length - 1 ? [{ keyPrefix: "app:" }, "own"] : [{}, undefined];
      const { client, close } = await library.standalone(server.port, extra);
      testClients.later(close);
      const backend = testClients.own(redis(client, { ...QUARANTINE, prefix }));
      return {
        library,
        backend,
        held: claimOf(),
        other: claimOf(),
        waiting: claimOf(),
        plain: testClients.own(redis(client, { prefix })),
        plainly: claimOf(),
      };
    }),
  );
  for (const { backend } of users) await whileReplicated(() => backend.endQuarantine());
  for (const { backend, held, other, waiting } of users) {
    const rival = rivalOf(waiting);
    for (const claim of [held, other, rival]) await whileReplicated(() => granted(backend, claim));
    await whileReplicated(() => refused(backend, waiting));
    // A script that the server does not know yet is sent again, and comes when the server has counted its replicas: each is used before.
    await eventually("it is renewed", async () => ((await backend.renew([held]))[0]?.held === true ? true : undefined));
    const before = claimOf();
    await whileReplicated(() => granted(backend, before));
    const next = rivalOf(before);
    expect(await whileReplicated(() => backend.swap(before, next))).toMatchObject({ granted: true });
  }
  const admin = testClients.client(server.port);
  /** A sign of life of one who waits, as its process sends it. */
  const signOfLife = ({ name, id }: Claim): Promise<unknown> => {
    const names = namesOf("holdfast", false);
    const key = names.lock(name);
    return admin.eval(beat.source, 2, key, names.marker(key), "1", quarantineText(toSettings(QUARANTINE)), id);
  };
  expect(await whileReplicated(() => signOfLife(users[0]!.waiting))).toHaveLength(1);
  const ask = async ({
    library,
    backend,
    held,
    other,
    waiting,
    plain,
    plainly,
  }: (typeof users)[0]): Promise<object> => {
    const no = (asked: ReturnType<RedisBackend["attempt"]>): Promise<unknown> =>
      asked.then(
        ({ granted: yes }) => (yes ? "granted" : "refused"),
        (error: Error) => /too few replicas/u.test(error.message),
      );
    const [attempt, unasked, again, swap, waits, [renewal], [unaskedRenewal]] = await Promise.all([
      no(backend.attempt(claimOf())),
      // Asks for no quarantine, and finds the marker.
      no(plain.attempt(claimOf())),
      no(backend.attempt(held)),
      no(backend.swap(other, rivalOf(other))),
      no(backend.attempt(waiting)),
      backend.renew([held]),
      plain.renew([plainly]),
    ]);
    const renewals = [renewal?.held, unaskedRenewal?.held];
    return { library: library.name, attempt, unasked, again, swap, waits, renewals };
  };
  for (const { plain, plainly } of users) await whileReplicated(() => granted(plain, plainly));
  // An operator's word ends a quarantine, not the watch over replicas.
  for (const { backend } of users) await whileReplicated(() => backend.endQuarantine());
  link.drop("both");
  server.pause();
  await sleep(STOPPED_MS);
  const asked = users.map(ask);
  const signs = signOfLife(users[0]!.waiting).catch((error: Error) => error.message);
  // So that everything lies in the server's sockets when it wakes.
  await sleep(100);
  server.resume();
  const expected = {
    attempt: true,
    unasked: true,
    again: true,
    swap: true,
    waits: true,
    renewals: ["unknown", "unknown"],
  };
  // Where the server happens to count its replicas first, it refuses the write itself, and the answer to the claim says so.
  expect(String(await signs)).toMatch(/NOREPLICAS|Not enough replicas answered of late/u);
  expect(await Promise.all(asked)).toEqual(users.map(({ library }) => ({ library: library.name, ...expected })));
}, 180_000);
