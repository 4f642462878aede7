import type { RedisServer } from "../../src/lab/servers/redis.ts";
import { type Servers, startServers } from "../quorum/servers.ts";
import { conformanceTests } from "./conformance-tests.ts";
import { quorumDeclined } from "./quorum-declined.ts";

/** A quorum of `count` real servers, some of which `harm` ends or freezes before anything is asked. */
function quorumTests(
  name: string,
  count: number,
  harm?: (servers: readonly RedisServer[]) => Promise<void> | void,
): void {
  let servers: Servers;
  conformanceTests({
    name,
    declined: quorumDeclined,
    start: async () => {
      servers = await startServers(count);
      await harm?.(servers.all);
      // Patient, because a busy machine is not a member's fault.
      return { open: () => servers.quorum({ maxTtl: "24h", memberWait: "2s" }), ttlMs: 800 };
    },
    stop: () => servers.stop(),
  });
}

quorumTests("quorum of three Redis servers", 3);
quorumTests("quorum of five Redis servers", 5);
quorumTests("quorum of five Redis servers, one of them killed", 5, ([first]) => first!.kill());
quorumTests("quorum of five Redis servers, two of them killed", 5, async ([first, second]) => {
  await first!.kill();
  await second!.kill();
});
quorumTests("quorum of five Redis servers, one killed and one stopped", 5, async ([first, second]) => {
  await first!.kill();
  second!.pause();
});
quorumTests("quorum of five Redis servers, two of them stopped", 5, ([first, second]) => {
  first!.pause();
  second!.pause();
});
