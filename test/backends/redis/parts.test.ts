/** Small parts after something else ended or failed: what the others still get, and what is looked for again. Without a server. */
import { expect, onTestFinished, test } from "vitest";
import type {
  Connection,
  OwnConnection,
  OwnConnectionEvents,
  Primary,
} from "../../../src/backends/redis/connection.ts";
import { Feed } from "../../../src/backends/redis/layouts/feed.ts";
import { scan } from "../../../src/backends/redis/layouts/scan.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { ServerChecks } from "../../../src/backends/redis/server-checks.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

test("of two who wait for a foreign lock, one hears of its end long after the other has stopped; the last one out ends the subscription", async () => {
  const clock = new FakeClock();
  const subscribed = new Set<string>();
  let events: OwnConnectionEvents | undefined;
  const own: Partial<OwnConnection> = {
    isOpen: true,
    subscribe: async (channels) => channels.forEach((channel) => subscribed.add(channel)),
    unsubscribe: async (channel) => void subscribed.delete(channel),
    close: () => {},
  };
  const connection: Partial<Connection> = {
    topology: "standalone",
    openOwn: async (_, given) => {
      events = given;
      return own as OwnConnection;
    },
  };
  const feed = new Feed(connection as Connection, clock, "", { ends: (text) => text === "free" });
  onTestFinished(() => feed.close());
  let heard = 0;
  const [stopFirst, stopSecond] = [feed.listen("lock", 0, () => {}), feed.listen("lock", 0, () => heard++)];
  await clock.settle();
  stopFirst();
  await clock.advance(60_000);
  heard = 0;
  events!.message("lock", "free");
  expect([heard, [...subscribed]]).toEqual([1, ["lock"]]);
  stopSecond();
  await clock.advance(60_000);
  expect([...subscribed]).toEqual([]);
});

test("a primary that the client does not know yet is looked for again by the next claim", async () => {
  let looks = 0;
  const connection: Partial<Connection> = {
    topology: "standalone",
    nodeOf: () => "new:6379",
    primaries: async () => {
      looks++;
      return [];
    },
  };
  const settings = toSettings({ failover: "quarantine" });
  const checks = new ServerChecks(connection as Connection, namesOf("holdfast", true), settings);
  await checks.check(claimOf({ ttlMs: 10_000 }));
  const before = looks;
  await checks.check(claimOf({ ttlMs: 10_000 }));
  expect(looks).toBe(before + 1);
});

test("a server that answers SCAN in another shape is reported, and not read", async () => {
  const primary: Primary = { address: "", command: () => Promise.resolve(["0", "lock"]) };
  await expect(scan(primary, "*", "string").next()).rejects.toThrow("unexpected reply to SCAN");
});
