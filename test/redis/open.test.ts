/** Redis by URL: what each form means, and what is said when it leads somewhere else. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend } from "../../src/backend.ts";
import { LockBackendError } from "../../src/errors.ts";
import { type ClusterLab, startCluster } from "../../src/lab/servers/cluster.ts";
import { freePort } from "../../src/lab/servers/place.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { type SentinelLab, startSentinels } from "../../src/lab/servers/sentinels.ts";
import { openBackend, openMember, openRenewer } from "../../src/redis/open.ts";
import { claimOf, Desk, granted } from "./lab.ts";
import { LOGIN, PASSWORD } from "../login.ts";

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

/** The fatal error that opening this URL is refused with. */
async function refusal(url: string): Promise<LockBackendError> {
  const error = await openBackend(url).then(
    async (backend) => {
      await backend.close();
      throw new Error("it opened");
    },
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LockBackendError);
  expect(error).toMatchObject({ fatal: true, backend: "redis" });
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
    test("nothing there says where it looked", async () => {
      const port = await freePort();
      const { message } = await refusal(`redis://:${secret}@127.0.0.1:${port}?client=${client}`);
      expect(message).toContain(`127.0.0.1:${port}`);
      expect(message).toMatch(/nothing usable answers.*ECONNREFUSED/u);
    });
    test("a wrong password says so, and shows no password anywhere", async () => {
      const error = await refusal(`redis://:wr0ng-one@127.0.0.1:${locked.port}?client=${client}`);
      expect(error.message).toMatch(/refused the password/u);
      expect(inspected(error)).not.toContain("wr0ng-one");
    });
    test("no password where one is needed says so", async () => {
      expect((await refusal(`redis://127.0.0.1:${locked.port}?client=${client}`)).message).toMatch(/password/u);
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
      await using desk = new Desk();
      const backend = desk.backend(port());
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

test("a service that the sentinels do not watch is refused", async () => {
  const port = sentinels.sentinels[0]?.port;
  expect(
    (await refusal(`redis+sentinel://${LOGIN}127.0.0.1:${port}/nobody?sentinelPassword=${PASSWORD}`)).message,
  ).toContain("service nobody");
});

test("redis+cluster:// to a single server says to use redis://", async () => {
  expect((await refusal(`redis+cluster://${LOGIN}127.0.0.1:${server.port}`)).message).toMatch(/127\.0\.0\.1/u);
});

test("rediss:// speaks TLS, and does not trust a stranger's certificate", async () => {
  const [key, cert] = [join(place, "key.pem"), join(place, "cert.pem")];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  const ask = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", ...subject];
  execFileSync("openssl", ask, { stdio: "ignore" });
  const port = await freePort();
  const args = ["--tls-port", String(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert];
  await using secure = await startRedis({ args: [...args, "--tls-auth-clients", "no"] });
  expect(secure.port).not.toBe(port);
  expect((await refusal(`rediss://${LOGIN}127.0.0.1:${port}`)).message).toMatch(/certificate/u);
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  try {
    for (const client of LIBRARIES) await works(`rediss://${LOGIN}127.0.0.1:${port}?client=${client}`);
  } finally {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  }
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
