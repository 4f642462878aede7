/** The connection for messages, when its server is slow to confirm a subscription, or never does. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type RedisBackend, redis } from "../../../src/backends/redis/index.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted } from "./lab.ts";

/** Passes everything on, but while it is shut no SUBSCRIBE, and nothing that follows one on its connection. */
class Gate implements AsyncDisposable {
  shut = true;
  /** The connections that have asked for a subscription and are open. */
  readonly inboxes: Set<Socket> = new Set();
  readonly #server = createServer((socket) => this.#join(socket));
  readonly #sockets: Set<Socket> = new Set();
  readonly #held: Map<Socket, Buffer[]> = new Map();
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  async open(): Promise<number> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  /** What was held back arrives at last. */
  heal(): void {
    this.shut = false;
    for (const [server, parts] of this.#held) for (const part of parts) server.write(part);
    this.#held.clear();
  }

  /** What was held back is lost for ever; only new connections are served. */
  forget(): void {
    this.shut = false;
  }

  cut(): void {
    for (const socket of this.inboxes) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket): void {
    const server = connect(this.#port, "127.0.0.1");
    const ends = [client, server];
    for (const socket of ends) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        for (const end of ends) end.destroy();
        this.inboxes.delete(client);
        this.#held.delete(server);
      });
    }
    client.on("data", (part) => {
      const asks = /\bsubscribe\r\n/iu.test(part.toString("latin1"));
      if (asks) this.inboxes.add(client);
      if (asks && this.shut) this.#held.set(server, this.#held.get(server) ?? []);
      const held = this.#held.get(server);
      if (held === undefined) server.write(part);
      else held.push(part);
    });
    server.on("data", (part) => client.write(part));
  }
}

async function channels(server: RedisServer): Promise<readonly string[]> {
  return (await server.cli("PUBSUB", "CHANNELS", "*")).split("\n").filter((line) => line !== "");
}

async function listens(server: RedisServer, ending: string): Promise<void> {
  await eventually(`${ending} is listened to`, async () =>
    (await channels(server)).some((channel) => channel.endsWith(ending)) ? true : undefined,
  );
}

/** Subscribing to the lock's channel fails until the gate opens. */
async function asked(gate: Gate): Promise<void> {
  await eventually("SUBSCRIBE was sent", () => (gate.inboxes.size > 0 ? true : undefined));
}

describe("the first claim of a process", () => {
  /** A claim that the store has granted, and whose answer has arrived here: whether its caller has it. */
  async function entered(
    testClients: Clients,
    gate: Gate,
    clock: FakeClock,
  ): Promise<{ readonly isAnswered: () => boolean; readonly answer: Promise<unknown> }> {
    const client = testClients.client(await gate.open());
    const backend = testClients.own(redis(client, { clock }));
    const claim = claimOf({ ttlMs: 2000 });
    let known = false;
    const answer = granted(backend, claim).then(() => (known = true));
    await asked(gate);
    await eventually("the store holds it", async () => ((await client.dbsize()) > 0 ? true : undefined));
    // Answers come in order: that of the claim was there before this one.
    await client.ping();
    await clock.settle();
    return { isAnswered: () => known, answer };
  }

  test("is answered when its process hears of a forced end", async () => {
    await using server = await startRedis();
    await using gate = new Gate(server.port);
    await using testClients = new Clients();
    const { isAnswered, answer } = await entered(testClients, gate, new FakeClock());
    expect(isAnswered()).toBe(false);
    gate.heal();
    await answer;
  });

  test("is answered without that after a quarter of its ttl", async () => {
    await using server = await startRedis();
    await using gate = new Gate(server.port);
    await using testClients = new Clients();
    const clock = new FakeClock();
    const { isAnswered, answer } = await entered(testClients, gate, clock);
    await clock.advance(499);
    expect(isAnswered()).toBe(false);
    await clock.advance(1);
    await answer;
  });
});

describe.concurrent.each(Object.values(libraries))("a SUBSCRIBE that is not answered, with $name", (library) => {
  async function open(testClients: Clients, gate: Gate): Promise<RedisBackend> {
    const { client, close } = await library.standalone(await gate.open());
    testClients.later(close);
    return testClients.own(redis(client));
  }

  test("is asked again on another connection", async () => {
    await using server = await startRedis();
    await using gate = new Gate(server.port);
    await using testClients = new Clients();
    const backend = await open(testClients, gate);
    await granted(backend, claimOf({ ttlMs: 100 }));
    await asked(gate);
    gate.forget();
    await eventually("the inbox is open", async () => ((await channels(server)).length > 0 ? true : undefined));
  });

  test("does not keep its connection open behind close()", async () => {
    await using server = await startRedis();
    await using gate = new Gate(server.port);
    await using testClients = new Clients();
    const backend = await open(testClients, gate);
    const claim = claimOf({ ttlMs: 1000 });
    await granted(backend, claim);
    await asked(gate);
    await backend.release(claim);
    await backend.close();
    await eventually("the connection is closed", () => (gate.inboxes.size === 0 ? true : undefined));
  });

  test("leaves nothing behind of a lock that no claim waits for any more", async () => {
    await using server = await startRedis();
    await using gate = new Gate(server.port);
    await using testClients = new Clients();
    const backend = await open(testClients, gate);
    const [early, late] = ["early", "late"].map((name) => backend.freed(name, () => {})) as [() => void, () => void];
    await asked(gate);
    early();
    gate.heal();
    await listens(server, ":late");
    // The same for one that is subscribed again when the connection has ended.
    gate.shut = true;
    gate.cut();
    await eventually("the old connection is gone", () => (gate.inboxes.size === 0 ? true : undefined));
    await asked(gate);
    late();
    gate.heal();
    backend.freed("other", () => {});
    await listens(server, ":other");
    await eventually("no client listens to the others", async () =>
      (await channels(server)).some((channel) => /:(early|late)$/u.test(channel)) ? undefined : true,
    );
    expect((await channels(server)).length).toBe(2);
  });
});
