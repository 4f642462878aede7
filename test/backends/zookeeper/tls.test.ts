/** TLS, against a real server with a certificate of its own. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../../src/lab/servers/free-port.ts";
import { makeScratch, removeScratch } from "../../../src/lab/servers/scratch.ts";
import { findProgram } from "../../../src/lab/servers/programs.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import { openBackend } from "../../../src/backends/zookeeper/open.ts";
import { ZooKeeperClient, zookeeper } from "../../../src/backends/zookeeper/index.ts";
import { claim, granted } from "./claims.ts";

const run = promisify(execFile);
let lab: ZooKeeperLab;
let folder: string;
let ca: string;
let port: number;

beforeAll(async () => {
  folder = makeScratch();
  const [store, password] = [join(folder, "store.p12"), "changeit"];
  const keytool = await findProgram("keytool");
  const common = ["-keystore", store, "-storetype", "PKCS12", "-storepass", password, "-alias", "zk"];
  const names = ["-dname", "CN=zk", "-ext", "san=ip:127.0.0.1,dns:zk.test"];
  await run(keytool, ["-genkeypair", "-keyalg", "EC", "-validity", "2", ...names, ...common]);
  ca = join(folder, "ca.pem");
  await run(keytool, ["-exportcert", "-rfc", "-file", ca, ...common]);
  port = await freePort();
  lab = await startZooKeeper({
    jars: readdirSync("/usr/share/java")
      .filter((jar) => /^netty-[a-z-]+\.jar$/.test(jar))
      .map((jar) => join("/usr/share/java", jar)),
    config: [
      `secureClientPort=${port}`,
      "secureClientPortAddress=127.0.0.1",
      "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
      `ssl.keyStore.location=${store}`,
      `ssl.keyStore.password=${password}`,
      "ssl.keyStore.type=PKCS12",
      "ssl.clientAuth=none",
    ],
  });
});

afterAll(async () => {
  await lab.stop();
  removeScratch(folder);
});

test("locks over TLS, with the server's certificate checked against a given authority", async () => {
  for (const backend of [
    zookeeper({ servers: `127.0.0.1:${port}`, tls: { ca: readFileSync(ca) } }),
    await openBackend(`zk://127.0.0.1:${port}?ca=${ca}`),
  ]) {
    const one = claim("tls");
    await granted(backend, one);
    expect(await backend.release(one)).toBe("held");
    await backend.close();
  }
});

test("checks the certificate against the name, not against the address that it has today", async () => {
  const reach = async (host: string): Promise<unknown> => {
    const client = new ZooKeeperClient({
      servers: `${host}:${port}`,
      timeoutMs: 20_000,
      tls: { ca: readFileSync(ca) },
      resolve: async () => ["127.0.0.1"],
    });
    try {
      await client.exists("/");
      return "reached";
    } catch (error) {
      return String((error as Error).cause);
    } finally {
      await client.close();
    }
  };
  expect(await reach("zk.test")).toBe("reached");
  expect(await reach("other.test")).toMatch(/Hostname\/IP does not match/);
});

test("does not talk to a server with an untrusted certificate", async () => {
  const client = new ZooKeeperClient({ servers: `127.0.0.1:${port}`, timeoutMs: 20_000, tls: true });
  const error = (await client.exists("/").catch((reason: unknown) => reason)) as Error;
  expect(error).toMatchObject({ code: "CONNECTIONLOSS" });
  expect(String(error.cause)).toMatch(/self-signed/);
  await client.close();
});
