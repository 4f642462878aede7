/** What only a real server shows: TLS by URL, what doctor finds, renewal from a worker thread while the main thread is blocked. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LOCKS_MIGRATION } from "../../../src/backends/postgres/index.ts";
import { openBackend } from "../../../src/backends/postgres/open.ts";
import { examinePostgres } from "../../../src/cli/doctor/postgres.ts";
import type { LockBackendError } from "../../../src/contract/errors.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import { type PostgresServer, USER } from "../../../src/lab/servers/postgres.ts";
import { DIST } from "../../dist.ts";
import { claimOf, eventually, granted, refused, rivalOf, startAsked, urlOf } from "./lab.ts";

const run = promisify(execFile);
const place = mkdtempSync(join(tmpdir(), "holdfast-pg-"));
const at = (name: string): string => join(place, name);
let server: PostgresServer;

beforeAll(async () => {
  chmodSync(place, 0o755);
  const ask = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  for (const [name, address] of [
    ["ours", "IP:127.0.0.1"],
    ["other", "DNS:elsewhere"],
  ] as const) {
    const files = ["-keyout", at(`${name}-key.pem`), "-out", at(`${name}.pem`)];
    execFileSync("openssl", [...ask, ...files, "-subj", `/CN=${name}`, "-addext", `subjectAltName=${address}`], {
      stdio: "ignore",
    });
  }
  // Only its own user may read the key of a server.
  chmodSync(at("ours-key.pem"), 0o600);
  if (USER !== undefined) execFileSync("chown", [USER, at("ours-key.pem")]);
  server = await startAsked({
    settings: { ssl: "on", ssl_cert_file: at("ours.pem"), ssl_key_file: at("ours-key.pem") },
  });
});
afterAll(async () => {
  await server?.stop();
  rmSync(place, { recursive: true, force: true });
});

describe("doctor", () => {
  const examine = async (
    query = "",
    { init = false, port = server.port } = {},
  ): Promise<{
    readonly levels: Readonly<Record<string, string>>;
    readonly facts: Readonly<Record<string, unknown>>;
  }> => {
    const { findings, facts } = await examinePostgres({
      url: `${urlOf(port)}${query}`,
      selfTest: false,
      init,
      say: () => undefined,
    });
    return { levels: Object.fromEntries(findings.map(({ check, level }) => [check, level])), facts };
  };

  test("without tables it says so, and with them all is well but fsync", async () => {
    expect((await examine()).levels).toMatchObject({ tables: "broken", pooler: "good", fsync: "weak" });
    await server.sql(LOCKS_MIGRATION);
    const { levels, facts } = await examine();
    expect(levels).toEqual({ tables: "good", commits: "good", fsync: "weak", "fail-over": "good", pooler: "good" });
    expect(facts).toMatchObject({ tables: "version 3", pooler: "no", replicas: 0 });
  });

  test("a pooler, an isolation level that is refused, a role without rights, tables that are too old", async () => {
    await using bouncer = await startPgBouncer(server);
    expect((await examine("", { port: bouncer.port })).levels).toMatchObject({ pooler: "weak", tables: "good" });
    await server.sql("alter role postgres set default_transaction_isolation = 'serializable'");
    expect((await examine()).levels).toMatchObject({ isolation: "broken" });
    await server.sql("alter role postgres reset default_transaction_isolation");
    await server.sql("update holdfast.store set version = 1");
    expect((await examine()).levels).toMatchObject({ tables: "broken" });
    await server.sql("update holdfast.store set version = 3");
    await server.sql("create role plain login password 'plain-secret'");
    const url = `postgres://plain:plain-secret@127.0.0.1:${server.port}/postgres`;
    const denied = await examinePostgres({ url, selfTest: false, init: false, say: () => undefined });
    expect(denied.findings[0]).toMatchObject({ level: "broken", text: expect.stringContaining("SECURITY.md") });
  });

  test("a server that was promoted: what comes, what lasts, and how an operator ends it", async () => {
    const before = await server.sql("select timeline from holdfast.store");
    await server.sql("update holdfast.store set timeline = 'FFFFFFFF', quarantine_ms = 62000");
    expect((await examine("?failover=quarantine")).levels).toMatchObject({ quarantine: "weak" });
    const backend = await openBackend(`${urlOf(server.port)}?failover=quarantine&maxTtl=60s`);
    expect((await refused(backend, claimOf({ queues: false }))).quarantineMs).toBeGreaterThan(0);
    expect((await examine("?failover=quarantine")).levels).toMatchObject({ quarantine: "weak" });
    expect((await examine("?failover=quarantine", { init: true })).levels).toMatchObject({ init: "good" });
    const claim = claimOf();
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    await backend.close();
    expect(await server.sql("select timeline from holdfast.store")).toBe(before);
    await server.sql("update holdfast.store set quarantine_ms = 0");
  });

  test("a server that is not there is an error that says so", async () => {
    await expect(examine("", { port: 1 })).rejects.toMatchObject({ fatal: false });
  });
});

/** `@`: the directory of the certificates. */
const tls = (query: string): string => `${urlOf(server.port)}?${query.replaceAll("@", `${place}/`)}`;

describe("TLS", () => {
  test.each([
    "sslmode=verify-full&sslrootcert=@ours.pem&client=pg",
    "sslmode=verify-full&sslrootcert=@ours.pem&client=postgres",
    "sslrootcert=@ours.pem",
    "sslmode=verify-ca&sslrootcert=@ours.pem",
    "sslmode=require&client=pg",
    "sslmode=require&client=postgres",
  ])("%s: every connection is encrypted, the one that listens too", async (query) => {
    const backend = await openBackend(tls(query));
    const claim = claimOf();
    await granted(backend, claim);
    await refused(backend, rivalOf(claim));
    const look = `select string_agg(distinct s.ssl::text, ' ') || ' ' || (count(*) > 1)::text from pg_stat_ssl s
      join pg_stat_activity a using (pid) where a.application_name = 'holdfast'`;
    expect(await server.sql(look)).toBe("true true");
    await backend.close();
    await eventually("its connections are gone", async () =>
      (await server.sql("select count(*) from pg_stat_activity where application_name = 'holdfast'")) === "0"
        ? true
        : undefined,
    );
  });

  test.each([
    ["another authority", "sslmode=verify-full&sslrootcert=@other.pem&client=pg"],
    ["another authority", "sslmode=verify-ca&sslrootcert=@other.pem&client=postgres"],
    ["none that is known", "sslmode=verify-full"],
  ])("the certificate of %s is refused, and TLS is named (%s)", async (_, query) => {
    const error = await openBackend(tls(query)).then(
      () => expect.fail("it was opened"),
      (reason: LockBackendError) => reason,
    );
    expect(error.message).toMatch(/TLS/u);
    expect(error.message).toContain("sslrootcert");
    expect(error.message).not.toContain(new URL(urlOf(server.port)).password);
  });

  test("a certificate for another name is refused with verify-full, and taken with verify-ca", async () => {
    const named = (query: string): string => tls(query).replace("127.0.0.1", "localhost");
    await expect(openBackend(named("sslmode=verify-full&sslrootcert=@ours.pem"))).rejects.toThrow(/TLS/u);
    await (await openBackend(named("sslmode=verify-ca&sslrootcert=@ours.pem"))).close();
  });
});

test('`renew: "thread"`: with the main thread blocked for longer than the ttl the lease is still held', async () => {
  const body = `import { connect } from "${DIST}/index.js";
    const locks = await connect(process.env.LOCKS_URL);
    const lease = await locks.acquire("threaded", { ttl: "3s", renew: "thread" });
    const untilMs = performance.now() + 3600;
    while (performance.now() < untilMs);
    lease.assertHeld();
    console.log(JSON.stringify({ aborted: lease.signal.aborted, result: await lease.release() }));
    await locks.close();`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", body], {
    env: { ...process.env, LOCKS_URL: urlOf(server.port) },
    timeout: 180_000,
    killSignal: "SIGKILL",
  });
  expect(JSON.parse(stdout)).toEqual({ aborted: false, result: "released" });
});
