import { describe, expect, test } from "vitest";
import { describe as describeEndpoint, parseUrl } from "../../../src/backends/redis/url.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";

describe("Redis URLs", () => {
  test("take hosts, ports, database, credentials and options apart", () => {
    const endpoint = parseUrl("redis://user:p%40ss%2F%3A@db.example:7000/4?prefix=mine&replicas=2&wait=1s&run=8");
    expect(endpoint).toMatchObject({
      topology: "standalone",
      tls: undefined,
      addresses: [{ host: "db.example", port: 7000 }],
      db: 4,
      login: { username: "user", password: "p@ss/:" },
      options: { prefix: "mine", run: 8, durability: { replicas: 2, wait: "1s" } },
    });
  });

  test("list several sentinels with their service, and IPv6 hosts", () => {
    const endpoint = parseUrl("rediss+sentinel://s1,s2:26380,[::1]:26381/my%20service/2?sentinelPassword=x");
    expect(endpoint).toMatchObject({
      topology: "sentinel",
      tls: {},
      service: "my service",
      db: 2,
      addresses: [
        { host: "s1", port: 26_379 },
        { host: "s2", port: 26_380 },
        { host: "::1", port: 26_381 },
      ],
      sentinelLogin: { password: "x" },
    });
    expect(describeEndpoint(endpoint)).toBe("s1:26379, s2:26380, [::1]:26381 (service my service)");
    expect(parseUrl("redis-sentinel://s1/main").service).toBe("main");
  });

  test("know clusters and unix sockets", () => {
    expect(parseUrl("redis+cluster://a,b:7001")).toMatchObject({
      topology: "cluster",
      addresses: [{ port: 6379 }, { port: 7001 }],
    });
    expect(parseUrl("redis+unix:///run/redis.sock?db=5")).toMatchObject({
      path: "/run/redis.sock",
      db: 5,
      addresses: [],
    });
    expect(parseUrl("redis+unix://:pw@/run/redis.sock").login.password).toBe("pw");
  });

  const wrong: readonly (readonly [string, RegExp])[] = [
    ["redis+sentinel://h1,h2", /name the service/u],
    ["redis://host/notanumber", /database/u],
    ["redis://host:99999", /host 1/u],
    ["redis://h:1,", /host 2/u],
    ["redis://host?prefx=a", /options of .*prefix.* only, got "prefx"/u],
    ["redis://host?client=other", /`client`/u],
    ["redis+unix://", /redis\+unix:\/\/\/path/u],
    ["redis://:%zz@host", /no % other than/u],
    ["http://host", /look like/u],
    ["redis://host?ca=/tmp/x", /`ca`.*only with TLS/u],
    ["redis+cluster://host?servername=x", /`servername`.*only with TLS/u],
    ["rediss://host?cert=/tmp/x", /`cert` and `key`.*together/u],
    ["rediss://host?ca=/nowhere/ca.pem", /`ca`.*ENOENT/u],
    ["redis://host?preifx=x&wait=1s", /got "preifx"/u],
  ];
  for (const [url, message] of wrong) {
    test(`refuses ${url}`, () => {
      expect(() => parseUrl(url)).toThrow(TypeError);
      expect(() => parseUrl(url)).toThrow(message);
    });
  }

  for (const secret of ["hunter#2", "hunter/2", "hunter?2", "12/34", "1?2", "a#b/c?d"]) {
    test(`S147: a password such as ${secret} gets a hint about percent-encoding, and is not repeated`, () => {
      for (const url of [`redis://:${secret}@host:6379/0`, `rediss+sentinel://app:${secret}@h1,h2/main`]) {
        expect(() => parseUrl(url)).toThrow(/percent-encoded.*%2F, %23 or %3F/u);
        expect(() => parseUrl(url)).not.toThrow(new RegExp(`${secret.slice(0, 3)}.*@`, "u"));
      }
      expect(parseUrl(`redis://:${encodeURIComponent(secret)}@host`).login.password).toBe(secret);
    });
  }

  test("an @ elsewhere is no password", () => {
    expect(parseUrl("redis://host/0?prefix=a@b").options.prefix).toBe("a@b");
    expect(parseUrl("redis+sentinel://h1/my@service").service).toBe("my@service");
    expect(parseUrl("redis+unix:///run/a@b.sock").path).toBe("/run/a@b.sock");
  });

  test("never repeat a password in an error", () => {
    for (const rest of ["host/x/y/z", "host:99999", "host?nope=1", "", "a b:1"]) {
      try {
        parseUrl(`redis://user:hunter2@${rest}`);
      } catch (error) {
        expect(String((error as Error).message) + (error as Error).stack).not.toContain("hunter2");
      }
    }
  });
});

describe("Redis options", () => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ prefix: "" }, /`prefix`/u],
    [{ prefix: "a{b}" }, /`prefix`/u],
    [{ prefix: "a b" }, /`prefix`/u],
    [{ run: 0 }, /`run`/u],
    [{ run: 1.5 }, /`run`/u],
    [{ idle: 0 }, /`idle`/u],
    [{ ticket: "soon" }, /`ticket`/u],
    [{ durability: { replicas: 0 } }, /`durability.replicas`/u],
    [{ durability: { replicas: 1, wait: 0 } }, /`durability.wait`/u],
    [{ failover: "yes" }, /`failover`/u],
    [{ failover: "quarantine", maxTtl: -1 }, /`maxTtl`/u],
  ];
  for (const [options, message] of wrong) {
    test(`refuse ${JSON.stringify(options)}`, () => {
      expect(() => toSettings(options)).toThrow(TypeError);
      expect(() => toSettings(options)).toThrow(message);
    });
  }

  test("a quarantine is the longest ttl and the longest lag together", () => {
    expect(toSettings({ failover: "quarantine", maxTtl: "20s", maxLag: "5s" }).quarantineMs).toBe(25_000);
    expect(toSettings({}).quarantineMs).toBe(0);
  });
});
