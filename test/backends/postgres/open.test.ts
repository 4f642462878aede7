/** Postgres by URL: what is opened, with which client library, and that it is closed. */
import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBackend, openRenewer } from "../../../src/backends/postgres/open.ts";
import { parseUrl } from "../../../src/backends/postgres/url.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, eventually, granted, refused, rivalOf, startMigrated, urlOf, waitFor } from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startMigrated();
});
afterAll(() => server.stop());

const connections = async (): Promise<number> =>
  Number(await server.sql("select count(*) from pg_stat_activity where application_name = 'holdfast'"));

test.each(["pg", "postgres"])(
  "a backend that was opened by URL with %s serves, and closes what it opened",
  async (client) => {
    const url = `${urlOf(server.port)}?client=${client}`;
    const [a, b] = [await openBackend(url), await openBackend(url)];
    const holder = claimOf();
    await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const waiting = waitFor(b, waiter);
    expect(await a.release(holder)).toBe("held");
    await waiting;
    const renewer = await openRenewer(b.renewer?.data);
    expect(await renewer.renew([waiter])).toMatchObject([{ held: true }]);
    await renewer.close();
    expect(await b.release(waiter)).toBe("held");
    await Promise.all([a.close(), b.close()]);
    await eventually("all connections are closed", async () => ((await connections()) === 0 ? true : undefined));
  },
);

test.each(["pg", "postgres"])(
  "%s names the host when it begins TLS: many servers serve by that name",
  async (client) => {
    let heard: ((hello: string) => void) | undefined;
    const hello = new Promise<string>((resolve) => (heard = resolve));
    const listener = createServer((socket) => {
      socket.on("error", () => undefined);
      // Yes to the question whether it has TLS. What comes then begins TLS.
      socket.once("data", () => {
        socket.once("data", (data) => {
          heard?.(data.toString("latin1"));
          socket.destroy();
        });
        socket.write("S");
      });
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as AddressInfo;
    const opened = openBackend(`postgres://localhost:${port}/x?client=${client}&sslmode=require`).catch(
      () => undefined,
    );
    expect(await hello).toContain("localhost");
    await opened;
    listener.close();
  },
);

test("nothing of the URL is in what is printed of a backend", async () => {
  const { inspect } = await import("node:util");
  const backend = await openBackend(urlOf(server.port));
  expect(inspect(backend, { depth: 9, showHidden: true })).not.toContain(new URL(urlOf(server.port)).password);
  await backend.close();
});

test("an address where nothing answers is no fatal error: the server may start later", async () => {
  await expect(openBackend("postgres://127.0.0.1:1/x")).rejects.toMatchObject({
    fatal: false,
    message: expect.stringContaining("127.0.0.1:1"),
  });
  await expect(openBackend(urlOf(server.port, "postgres", "nowhere"))).rejects.toMatchObject({ fatal: true });
});

test.each(["pg", "postgres"])(
  "a password that a pooler refuses is not taken for a server that is away: %s",
  async (client) => {
    await using bouncer = await startPgBouncer(server);
    const url = urlOf(bouncer.port).replace(/:[^:@]+@/u, ":wrong-secret@");
    await expect(openBackend(`${url}?client=${client}`)).rejects.toMatchObject({
      message: expect.stringMatching(/a pooler refused the user name or the password \((?!.*wrong-secret)/u),
    });
  },
);

describe("URLs", () => {
  test("are read as libpq reads them", () => {
    expect(
      parseUrl("postgresql://me:p%40ss@[::1]:6432/app?sslmode=require&connections=9&maxTtl=1m&idle=5000"),
    ).toMatchObject({
      host: "::1",
      port: 6432,
      user: "me",
      password: "p@ss",
      database: "app",
      ssl: { rejectUnauthorized: false },
      connections: 9,
      options: { maxTtl: "1m", idle: 5000 },
    });
    expect(parseUrl("postgres:///app?host=/run/postgresql")).toMatchObject({
      host: "/run/postgresql",
      port: 5432,
      ssl: false,
    });
    expect(parseUrl("postgres://db?sslmode=verify-full").ssl).toMatchObject({ rejectUnauthorized: true });
  });

  test("an option that is not known is named, with those that are", () => {
    expect(() => parseUrl("postgres://db/app?migrat=true")).toThrow(/options of .*\bmigrate\b.* only, got "migrat"/u);
  });

  test.each([
    "postgres://me:se/cret@db/app",
    "postgres://me:1234/secret@db/app",
    "postgres://me:1234?secret@db/app",
    "postgres://me:secret@db:99999/app",
    "postgres://me:secret@one,two/app",
    "postgres://me:secret@db/app?sslmode=prefer",
    "postgres://me:secret@db/app?sslcert=/nowhere.pem",
    "postgres://me:secret@db/app?migrate=yes",
    "postgres://me:secret@db/app?colour=red",
    "postgres://me:secret@db/app?connections=0",
    "postgres://me:secret%@db/app",
  ])("that are wrong are a TypeError without the password: %s", (url) => {
    expect(() => parseUrl(url)).toThrow(TypeError);
    expect(() => parseUrl(url)).not.toThrow(/se\/?cret/u);
  });
});
