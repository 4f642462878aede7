/** Timers that ioredis keeps of connections that have ended: they reset no other connection, and keep no process alive. */
import { createServer, type Server, type Socket } from "node:net";
import * as ioredis5 from "ioredis";
import * as ioredis6 from "ioredis6";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openIoredis } from "../../src/redis/open-ioredis.ts";
import { parseUrl } from "../../src/redis/url.ts";

/** Longer than any time-out of a connection. */
const AGES_MS = 60_000;

let server: Server;
let sockets: Socket[];
/** What is done with a new connection when it has asked for something. */
let asked: (socket: Socket, number: number, text: string) => void;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  sockets = [];
  server = createServer((socket) => {
    const number = sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes) => asked(socket, number, bytes.toString("latin1")));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
  vi.useRealTimers();
});

/** Lets sockets work until something is true; time stands still meanwhile. */
async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setImmediate(resolve));
}

const port = (): number => (server.address() as { port: number }).port;

describe.each([
  ["ioredis 5", ioredis5],
  ["ioredis 6", ioredis6],
])("S147: %s", (_name, library) => {
  test.each(["redis", "redis+cluster"])("a %s:// connection that ended unanswered leaves no timer", async (scheme) => {
    asked = (socket) => socket.destroy();
    const opened = openIoredis(library as never, parseUrl(`${scheme}://:secret@127.0.0.1:${port()}`));
    let failed = false;
    opened.onError(() => (failed = true));
    void opened.connect().catch(() => {});
    const { client } = opened as { client: { readonly status: string } };
    await until(() => failed || ["close", "reconnecting", "end"].includes(client.status));
    await opened.close();
    // The library gives a connection two seconds to end; what is left after three was forgotten.
    await vi.advanceTimersByTimeAsync(3000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("a healthy connection is not reset because of the one before it", async () => {
    asked = (socket, number, text) => {
      if (number === 1) return void socket.destroy();
      for (const [, command] of text.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/gu)) {
        socket.write(command === "info" ? "$9\r\nloading:0\r\n" : "+OK\r\n");
      }
      return undefined;
    };
    const opened = openIoredis(library as never, parseUrl(`redis://:secret@127.0.0.1:${port()}`));
    void opened.connect().catch(() => {});
    const { client } = opened as { client: { readonly status: string } };
    await until(() => ["close", "reconnecting"].includes(client.status));
    // Not until the forgotten timer would be over.
    for (let ms = 0; client.status !== "ready" && ms < 5000; ms += 10) {
      await vi.advanceTimersByTimeAsync(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => client.status === "ready");
    await vi.advanceTimersByTimeAsync(AGES_MS);
    await until(() => true);
    expect({ status: client.status, connections: sockets.length }).toEqual({ status: "ready", connections: 2 });
    await opened.close();
  });
});
