/** What a server is refused with, word for word: what is wrong, where, and what to do. */
import { describe, expect, test } from "vitest";
import type { Connection, Primary } from "../../../src/backends/redis/connection.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import type { Identity } from "../../../src/backends/redis/query.ts";
import { cannotQuarantine, ServerChecks, tooLong } from "../../../src/backends/redis/server-checks.ts";
import { claimOf } from "./lab.ts";

describe("a quarantine", () => {
  const identity = { version: "7.0.15", minReplicas: 1, minReplicasMaxLagMs: 1000, guardsWrites: true } as Identity;
  const why = (change: Partial<Identity>, maxLagMs = 3000, checkReplicas = true): string | undefined =>
    cannotQuarantine({ ...identity, ...change }, { maxLagMs, checkReplicas });

  test.each([
    ["6.2.7", true],
    ["6.2.6", false],
    ["6.2.10", true],
    ["6.1.9", false],
    ["6.10.0", true],
    ["5.9.9", false],
    ["7.0.0", true],
    ["10.0.0", true],
    // How old that is is unknown, so that it is not refused for it.
    ["unstable", true],
  ] as const)("on Redis %s: %s", (version, may) => {
    expect(why({ version })).toBe(
      may
        ? undefined
        : `Redis ${version} lets scripts write where \`min-replicas-to-write\` forbids it. Use 6.2.7 or later`,
    );
  });

  test("may take as long as a primary without replicas goes on, and not a millisecond less", () => {
    expect(why({}, 3000)).toBeUndefined();
    expect(why({}, 2999)).toBe(
      "`min-replicas-max-lag` is 1 s, so a primary without replicas may continue to renew for 3 s, but `maxLag` is 3 s. Lower the one or raise the other, or pass `checkReplicas: false`",
    );
  });

  test("is refused with what is set wrong, unless replicas are not to be checked", () => {
    for (const [change, words] of [
      [{ minReplicas: 0 }, "`min-replicas-to-write` is 0, so a primary without replicas would continue to renew."],
      [{ minReplicasMaxLagMs: 0 }, "`min-replicas-max-lag` is 0, which switches `min-replicas-to-write` off."],
      [
        { guardsWrites: false, minReplicasMaxLagMs: undefined },
        "it does not show `min-replicas-to-write`, neither by CONFIG nor in INFO.",
      ],
    ] as const) {
      expect(why(change)?.startsWith(words)).toBe(true);
      expect(why(change)).toMatch(/, or pass `checkReplicas: false`$/);
      expect(why(change, 3000, false)).toBeUndefined();
    }
    expect(why({ version: "6.0.0" }, 3000, false)).toContain("6.0.0");
  });
});

test("a claim that could outlast the quarantine is refused with how long it could, and one that could not is not", () => {
  const asked = (ttlMs: number, lockDelayMs: number, minHoldMs: number): string | undefined =>
    tooLong(claimOf({ name: "a", ttlMs, lockDelayMs, minHoldMs }), 30_000)?.message;
  expect(asked(20_000, 10_000, 30_000)).toBeUndefined();
  const words = (ms: string): string =>
    `Lock "a": asked for ${ms}, but \`maxTtl\` is 30 s: a quarantine after a fail-over would be too short. Ask for less, or raise \`maxTtl\` everywhere.`;
  expect(asked(20_000, 11_000, 0)).toBe(words("31 s"));
  expect(asked(20_000, 0, 32_000)).toBe(words("32 s"));
});

describe("a primary on which a quarantine has no effect", () => {
  /** Primaries at these addresses, whose settings are not good enough. */
  function checksOn(addresses: readonly string[], nodeOf: string): ServerChecks {
    const primaries = addresses.map((address): Partial<Primary> => ({
      address,
      command: ([command]) =>
        command === "INFO"
          ? Promise.resolve("redis_version:6.0.0\r\nrole:master\r\n")
          : Promise.reject(new Error("no")),
    }));
    const connection: Partial<Connection> = {
      topology: "standalone",
      nodeOf: () => nodeOf,
      primaries: () => Promise.resolve(primaries as Primary[]),
    };
    const settings = toSettings({ failover: "quarantine", maxTtl: "30s", maxLag: "3s" });
    return new ServerChecks(connection as Connection, namesOf("holdfast", false), settings);
  }
  const refusal = (checks: ServerChecks): Promise<unknown> =>
    checks.check(claimOf({ ttlMs: 1000 })).then(
      () => "none",
      (error: Error) => error.message,
    );

  test("is named where there are several, and not where there is one", async () => {
    const words = 'Redis locks: failover: "quarantine" has no effect';
    expect(await refusal(checksOn([""], ""))).toMatch(`${words}: Redis 6.0.0 lets scripts write`);
    expect(await refusal(checksOn(["a:1", "b:2"], "b:2"))).toMatch(`${words} on b:2: Redis 6.0.0 lets scripts write`);
  });

  test("that the client does not know yet is not refused, and looked for again", async () => {
    const addresses = ["a:1"];
    const checks = checksOn(addresses, "b:2");
    expect(await refusal(checks)).toBe("none");
    expect(await refusal(checks)).toBe("none");
  });

  test("is looked at again after it was refused", async () => {
    const checks = checksOn([""], "");
    expect(await refusal(checks)).toBe(await refusal(checks));
  });
});
