/** A primary that stood still while it was cut off from its replicas: when it wakes, its own count of them is as old as the stop. */
import { expect, test } from "vitest";
import { startProxy } from "../../../src/lab/proxy.ts";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, sleep } from "./lab.ts";

const GUARDED = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1", "--repl-diskless-sync-delay", "0"];
const QUARANTINE: RedisOptions = { failover: "quarantine", maxTtl: "1m", maxLag: "3s" };
/** Longer than `maxLag`, by the whole seconds of INFO. */
const STOPPED_MS = 4500;

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
  for (const { backend } of users) await backend.endQuarantine();
  for (const { backend, held, other, waiting } of users) {
    for (const claim of [held, other]) await granted(backend, claim);
    await granted(backend, rivalOf(waiting));
    await refused(backend, waiting);
  }
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
    const [attempt, unasked, again, swap, beat, [renewal], [unaskedRenewal]] = await Promise.all([
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
    return { library: library.name, attempt, unasked, again, swap, beat, renewals };
  };
  for (const { plain, plainly } of users) await granted(plain, plainly);
  // An operator's word ends a quarantine, not the watch over replicas.
  for (const { backend } of users) await backend.endQuarantine();
  link.drop("both");
  server.pause();
  await sleep(STOPPED_MS);
  const asked = users.map(ask);
  // So that everything lies in the server's sockets when it wakes.
  await sleep(100);
  server.resume();
  const expected = {
    attempt: true,
    unasked: true,
    again: true,
    swap: true,
    beat: true,
    renewals: ["unknown", "unknown"],
  };
  expect(await Promise.all(asked)).toEqual(users.map(({ library }) => ({ library: library.name, ...expected })));
}, 180_000);
