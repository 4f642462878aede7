/** Redis by URL: what each form means, and what is said when it leads somewhere else. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend } from "../../../src/contract/backend.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { freePort } from "../../../src/lab/servers/free-port.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type SentinelLab, startSentinels } from "../../../src/lab/servers/sentinels.ts";
import { toBackendError } from "../../../src/backends/redis/errors.ts";
import { notInstalled, openBackend, openMember, openRenewer } from "../../../src/backends/redis/open.ts";
import { LOGIN, PASSWORD } from "../../login.ts";
import { claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

const SECRET = "s3cret-p@ss";
let server: RedisServer;
let locked: RedisServer;
let sentinels: SentinelLab;
let cluster: ClusterLab;
let place: string;

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), "holdfast-redis-"));
  const user = ["--user", "app", "on", `>${SECRET}`, "~*", "&*", "+@all"];
  [server, locked, sentinels, cluster] = await Promise.all([
    startRedis({ args: ["--unixsocket", join(place, "redis.sock")] }),
    startRedis({ args: ["--requirepass", SECRET, ...user] }),
    startSentinels(),
    startCluster(),
  ]);
});
afterAll(async () => {
  await Promise.all([server, locked, sentinels, cluster].map((started) => started.stop()));
  rmSync(place, { recursive: true, force: true });
});

/** Opens, takes a lock, gives it back and closes. */
async function works(url: string): Promise<void> {
  const backend: Backend = await openBackend(url);
  try {
    const claim = claimOf();
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
  } finally {
    await backend.close();
  }
}

/** The error with which opening this URL is refused: fatal, unless it may pass or its kind is unknown. */
async function refusal(url: string, fatal: boolean | "either" = true): Promise<LockBackendError> {
  const error = await openBackend(url).then(
    async (backend) => {
      await backend.close();
      throw new Error("it opened");
    },
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LockBackendError);
  expect(error).toMatchObject({ backend: "redis", ...(fatal === "either" ? {} : { fatal }) });
  return error as LockBackendError;
}

const LIBRARIES = ["ioredis", "redis"] as const;

for (const client of LIBRARIES) {
  describe.concurrent(`by URL, with ${client}`, () => {
    const secret = encodeURIComponent(SECRET);
    test("redis://", () => works(`redis://${LOGIN}127.0.0.1:${server.port}?client=${client}`));
    test("redis:// with a database, a prefix and other options", async () => {
      await works(
        `redis://${LOGIN}127.0.0.1:${server.port}/3?client=${client}&prefix=mine${client}&run=8&idle=10s&ticket=2s`,
      );
      expect(await server.cli("-n", "3", "KEYS", `mine${client}:*`)).toContain(`mine${client}:{`);
    });
    test("redis:// with a password", () => works(`redis://:${secret}@127.0.0.1:${locked.port}?client=${client}`));
    test("redis:// with a user and a password", () =>
      works(`redis://app:${secret}@127.0.0.1:${locked.port}?client=${client}`));
    test("redis+unix://", () => works(`redis+unix://${LOGIN}${join(place, "redis.sock")}?client=${client}`));
    test("redis+sentinel:// with one sentinel that is down", async () => {
      const hosts = [await freePort(), ...sentinels.sentinels.map(({ port }) => port)].map(
        (port) => `127.0.0.1:${port}`,
      );
      await works(
        `redis+sentinel://${LOGIN}${hosts.join(",")}/${sentinels.service}?sentinelPassword=${PASSWORD}&client=${client}`,
      );
    });
    test("redis+cluster://", () => works(`${cluster.url}?client=${client}`));

    test("a sentinel's port is no Redis: says so, and which URL to use", async () => {
      const { message } = await refusal(`redis://${LOGIN}127.0.0.1:${sentinels.sentinels[0]?.port}?client=${client}`);
      expect(message).toMatch(/this is a sentinel.*redis\+sentinel:\/\//u);
    });
    test("a replica takes no writes: says so, and what to use", async () => {
      const { message } = await refusal(`redis://${LOGIN}127.0.0.1:${sentinels.replicas[0]?.port}?client=${client}`);
      expect(message).toMatch(/this is a replica.*primary/u);
    });
    test("a cluster's node by redis:// says to use redis+cluster://", async () => {
      const { message } = await refusal(`redis://${LOGIN}127.0.0.1:${cluster.nodes[0]?.port}?client=${client}`);
      expect(message).toMatch(/node of a Redis Cluster.*redis\+cluster:\/\//u);
    });
    test("S147: nothing there says where it looked, and that it may pass", async () => {
      const port = await freePort();
      const { message } = await refusal(`redis://:${secret}@127.0.0.1:${port}?client=${client}`, false);
      expect(message).toContain(`127.0.0.1:${port}`);
      expect(message).toMatch(/nothing usable answers.*ECONNREFUSED/u);
    });
    test("S178: an open backend shows no password when it is printed", async () => {
      const backend = await openBackend(`redis://:${secret}@127.0.0.1:${locked.port}?client=${client}`);
      await granted(backend, claimOf());
      const shown = inspect(backend, { depth: 12, showHidden: true, getters: false });
      await backend.close();
      expect(shown).not.toContain(secret);
      expect(shown).not.toContain(SECRET);
    });
    test("S132: close() leaves neither a lease nor a place in a queue behind, though the server knows no script", async () => {
      await using testClients = new Clients();
      const own = await startRedis();
      testClients.later(() => own.stop());
      const [backend, holder] = [await openBackend(`${own.url}?client=${client}`), testClients.backend(own.port)];
      const [held, taken] = [claimOf(), claimOf()];
      const waiting = rivalOf(taken);
      await granted(backend, held);
      await granted(holder, taken);
      await refused(backend, waiting);
      await own.cli("SCRIPT", "FLUSH");
      const gone = [backend.release(held), backend.release(waiting)];
      await backend.close();
      const { held: left, pending } = await holder.query("test:");
      expect([left.map(({ name }) => name), pending]).toEqual([[taken.name], []]);
      await Promise.all(gone);
    });
    test("S132: close() of a backend whose server hangs settles, and says what may be left", async () => {
      await using testClients = new Clients();
      const own = await startRedis();
      testClients.later(() => own.stop());
      const backend = await openBackend(`${own.url}?client=${client}`);
      const claim = claimOf();
      await granted(backend, claim);
      own.pause();
      backend.release(claim).catch(() => {});
      const error: unknown = await backend.close().catch((reason: unknown) => reason);
      own.resume();
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error).toMatchObject({ message: expect.stringContaining(claim.name) as string, fatal: false });
    });
    test("a wrong password says so, and shows no password anywhere", async () => {
      const error = await refusal(`redis://:wr0ng-one@127.0.0.1:${locked.port}?client=${client}`);
      expect(error.message).toMatch(/refused the password/u);
      expect(inspected(error)).not.toContain("wr0ng-one");
    });
    test("a database that the server does not have is said to be missing, and no trouble with the network", async () => {
      const error = await refusal(`redis://:${secret}@127.0.0.1:${locked.port}/99?client=${client}`);
      expect(error.message).toMatch(/no database of that number/u);
    });
    test("no password where one is needed says so", async () => {
      expect((await refusal(`redis://127.0.0.1:${locked.port}?client=${client}`)).message).toMatch(/wants a password/u);
    });
  });
}

describe.concurrent("a client that you bring", () => {
  const wrong: readonly (readonly [string, () => number, RegExp])[] = [
    ["to a replica", () => sentinels.replicas[0]?.port ?? 0, /this is a replica/u],
    ["to a sentinel", () => sentinels.sentinels[0]?.port ?? 0, /it is a sentinel/u],
    ["to a cluster's node", () => cluster.nodes[0]?.port ?? 0, /node of a Redis Cluster/u],
    ["without the password", () => locked.port, /refused the password/u],
  ];
  for (const [what, port, message] of wrong) {
    test(`${what} is a fatal error that says so`, async () => {
      await using testClients = new Clients();
      const backend = testClients.backend(port());
      // Some of the locks happen to lie on that very node of the cluster.
      const attempts = Array.from({ length: 8 }, () => backend.attempt(claimOf()));
      const failures = (await Promise.allSettled(attempts)).filter((each) => each.status === "rejected");
      expect(failures.length).toBeGreaterThan(0);
      for (const { reason } of failures)
        expect(reason).toMatchObject({ fatal: true, message: expect.stringMatching(message) as string });
    });
  }
});

function inspected(error: Error): string {
  return inspect(error, { depth: 12, showHidden: true });
}

test("a server or a sentinel that wants a password, and got none, says where both stand in a URL", () => {
  const { message, fatal } = toBackendError(new Error("NOAUTH Authentication required."), "");
  expect(message).toMatch(/wants a password.*redis:\/\/:password@host.*\?sentinelPassword=/u);
  expect(fatal).toBe(true);
});

test("a service that the sentinels do not watch is refused", async () => {
  const port = sentinels.sentinels[0]?.port;
  const url = `redis+sentinel://${LOGIN}127.0.0.1:${port}/nosuch?sentinelPassword=${PASSWORD}`;
  expect((await refusal(url)).message).toMatch(/service nosuch.*watch no service of that name/u);
});

test("redis+cluster:// to a single server says to use redis://", async () => {
  expect((await refusal(`redis+cluster://${LOGIN}127.0.0.1:${server.port}`)).message).toMatch(/127\.0\.0\.1/u);
});

/** A key and a certificate that it signs itself. */
function certify(name: string, alternative: string): { readonly key: string; readonly cert: string } {
  const [key, cert] = [join(place, `${name}-key.pem`), join(place, `${name}.pem`)];
  const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=${alternative}`];
  const ask = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", ...subject];
  execFileSync("openssl", ask, { stdio: "ignore" });
  return { key, cert };
}

async function secureServer(
  testClients: Clients,
  { key, cert }: { key: string; cert: string },
  clients?: string,
): Promise<number> {
  const port = await freePort();
  const own = ["--tls-port", String(port), "--tls-cert-file", cert, "--tls-key-file", key];
  const theirs = ["--tls-ca-cert-file", clients ?? cert, "--tls-auth-clients", clients === undefined ? "no" : "yes"];
  const secure = await startRedis({ args: [...own, ...theirs] });
  testClients.later(() => secure.stop());
  expect(secure.port).not.toBe(port);
  return port;
}

test("S164: rediss:// trusts the authority, shows the client certificate and asks for the name that its URL says", async () => {
  await using testClients = new Clients();
  const [here, named, ours] = [
    certify("here", "IP:127.0.0.1"),
    certify("redis.internal", "DNS:redis.internal"),
    certify("client", "DNS:client"),
  ];
  const [open, other, strict] = await Promise.all([
    secureServer(testClients, here),
    secureServer(testClients, named),
    secureServer(testClients, here, ours.cert),
  ]);
  const tried = LIBRARIES.map(async (client) => {
    const url = (port: number, query: string): string => `rediss://${LOGIN}127.0.0.1:${port}?client=${client}${query}`;
    await works(url(open, `&ca=${here.cert}`));
    await works(url(other, `&ca=${named.cert}&servername=redis.internal`));
    await works(url(strict, `&ca=${here.cert}&cert=${ours.cert}&key=${ours.key}`));
    // S147: each failure says which it was, and what to do.
    expect((await refusal(url(open, ""))).message).toMatch(/TLS: .*not from an authority.*\?ca=/u);
    expect((await refusal(url(other, `&ca=${named.cert}`))).message).toMatch(/TLS: .*another name.*\?servername=/u);
    // The server's last words may be lost with the connection.
    const uncertified = await refusal(url(strict, `&ca=${here.cert}`), "either");
    expect(uncertified.message).toMatch(/TLS: .*client certificate.*\?cert=/u);
    expect((await refusal(url(server.port, ""), "either")).message).toMatch(/TLS: .*does not speak/u);
  });
  await Promise.all(tried);
}, 180_000);

test("S147: what is missing is named: the library that the URL asks for", () => {
  expect(notInstalled("redis").message).toMatch(/Install redis: npm install redis\.$/u);
  expect(notInstalled("ioredis").message).toMatch(/Install ioredis: npm install ioredis\.$/u);
  expect(notInstalled(undefined).message).toMatch(/ioredis, or redis/u);
});

test("a member opens while its server is down, and works when it is up", async () => {
  const port = await freePort();
  const member = await openMember(`redis://${LOGIN}127.0.0.1:${port}`);
  await using late = await startRedis({ port });
  expect(late.port).toBe(port);
  await member.join?.({ quarantineMs: 0, allowEviction: false });
  expect(await member.vote(claimOf(), 5n)).toMatchObject({ vote: "granted" });
  await member.close();
});

test("a renewer renews what a backend opened with the same URL holds", async () => {
  const url = `redis://${LOGIN}127.0.0.1:${server.port}`;
  const backend = await openBackend(url);
  const claim = claimOf();
  await granted(backend, claim);
  expect(backend.renewer).toMatchObject({ data: url });
  const renewer = await openRenewer(backend.renewer?.data);
  expect(await renewer.renew([claim])).toMatchObject([{ held: true }]);
  await renewer.close();
  await backend.close();
});
