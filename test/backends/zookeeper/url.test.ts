import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseServers, showServer } from "../../../src/backends/zookeeper/client/servers.ts";
import { openBackend, parseUrl } from "../../../src/backends/zookeeper/open.ts";
import { zookeeper, type ZooKeeperOptions } from "../../../src/backends/zookeeper/index.ts";

describe("zk:// URLs", () => {
  test("name servers, chroot, credentials and options", () => {
    expect(
      parseUrl("zk://h1:2181,h2:2182/app/locks?session=20s&base=/l&names=paths&dialect=kazoo&acl=creator"),
    ).toEqual({
      servers: "h1:2181,h2:2182",
      chroot: "/app/locks",
      session: "20s",
      base: "/l",
      names: "paths",
      dialect: "kazoo",
      acl: "creator",
    });
    expect(parseUrl("zookeeper://bob:p%40ss%3Aword@[::1]:2181")).toEqual({
      servers: "[::1]:2181",
      auth: { user: "bob", password: "p@ss:word" },
    });
    expect(parseUrl("ZK://h/?auth=bob:secret")).toEqual({ servers: "h", auth: { user: "bob", password: "secret" } });
  });

  test("give rights as zkCli does (S179)", () => {
    expect(parseUrl("zk://h?acl=open").acl).toBe("open");
    expect(parseUrl("zk://bob:x@h?acl=auth::cdrwa,digest:ann:a%2Bb%3D:rc,ip:10.0.0.0/8:r").acl).toEqual([
      { scheme: "auth", id: "", perms: "cdrwa" },
      { scheme: "digest", id: "ann:a+b=", perms: "rc" },
      { scheme: "ip", id: "10.0.0.0/8", perms: "r" },
    ]);
  });

  test("ask for TLS, with files of their own if they say so", () => {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-url-"));
    try {
      const ca = join(dir, "ca.pem");
      writeFileSync(ca, "certificate");
      expect(parseUrl("zk://h?tls=true").tls).toEqual({});
      expect(parseUrl(`zk://h?ca=${ca}`).tls).toEqual({ ca: Buffer.from("certificate") });
      expect(parseUrl("zk://h?tls=false").tls).toBeUndefined();
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  test("that make no sense are refused without repeating a password", async () => {
    const wrong = [
      "zk://",
      "zk:h1",
      "redis://h1",
      "zk://bob:hunter2@",
      "zk://bob:hunter2@h1:99999",
      "zk://bob:hunter2@h1,,h2",
      "zk://bob:hunter2@h1?colour=red",
      "zk://bob:hunter2@h1/%zz",
      "zk://bob:hunter2@h1?tls=maybe",
      "zk://bob:hunter2@h1?session=0s",
      "zk://bob:hunter2@h1?dialect=klingon",
      "zk://hunter2@h1",
      "zk://bob:hunter2@h1//x",
      "zk://bob:hunter2@h1?base=x",
      "zk://bob:hunter2@h1?names=hashed",
      "zk://bob:hunter2@h1?acl=mine",
      "zk://bob:hunter2@h1?acl=world:anyone:everything",
      "zk://bob:hunter2@h1?acl=",
      // Rights of the creator, and an anonymous client.
      "zk://h1?acl=creator",
      "zk://h1?acl=world:anyone:r,auth::cdrwa",
    ];
    for (const url of wrong) {
      const error = await openBackend(url).then(
        async (backend) => {
          await backend.close();
          return undefined;
        },
        (reason: unknown) => reason,
      );
      expect(error, url).toBeInstanceOf(TypeError);
      expect(String(error), url).not.toContain("hunter2");
    }
  });
});

describe("servers", () => {
  test("are hosts, IPv4 and IPv6 addresses, on port 2181 unless said", () => {
    const text = "zk1,zk2:2182,127.0.0.1,[::1],[fe80::1%eth0]:2183";
    expect(parseServers(text).map(showServer)).toEqual([
      "zk1:2181",
      "zk2:2182",
      "127.0.0.1:2181",
      "[::1]:2181",
      "[fe80::1%eth0]:2183",
    ]);
    for (const wrong of ["", ",", "a,", "::1", "a:b", "a:0", "a b", "a:70000", "[x]", "user@h"]) {
      expect(() => parseServers(wrong), wrong).toThrow(TypeError);
    }
  });

  test("and options that make no sense are refused at once", () => {
    const wrong: ZooKeeperOptions[] = [
      { servers: "h", session: "0s" },
      { servers: "h", base: "locks" },
      { servers: "h", chroot: "app" },
      { servers: "h", dialect: "klingon" as "kazoo" },
    ];
    for (const options of wrong) expect(() => zookeeper(options)).toThrow(TypeError);
  });
});
