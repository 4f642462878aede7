import type { Backend } from "../../src/contract/backend.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import type { RedisServer } from "../../src/lab/servers/redis.ts";
import { TooSlowError } from "../../src/testing/trial.ts";
import { type Servers, startServers } from "../backends/quorum/servers.ts";
import { Asked } from "../backends/redis/asked.ts";
import { conformanceTests } from "./conformance-tests.ts";
import { quorumCannot, quorumDeclined } from "./quorum-declined.ts";

/** A quorum of `count` real servers, the first of which `harm` ends or freezes before anything is asked. */
function quorumTests(
  name: string,
  count: number,
  harmed = 0,
  harm?: (servers: readonly RedisServer[]) => Promise<void> | void,
): void {
  let servers: Servers;
  let asked: Asked;
  conformanceTests({
    name,
    declined: quorumDeclined,
    cannot: quorumCannot,
    start: async () => {
      servers = await startServers(count);
      await harm?.(servers.all);
      asked = new Asked(servers.all.slice(harmed));
      return { open: () => patient(servers), left: (prefix) => leftIn(asked, count, prefix) };
    },
    left: () => leftIn(asked, count),
    stop: async () => {
      asked.close();
      await servers.stop();
    },
  });
}

/**
 * A quorum that waits for busy members. Where votes or renewals of healthy members come too late for the ttl all the same,
 * the machine was too slow, and the check starts again with a longer one; at eight times the ttl it fails.
 */
function patient(servers: Servers): Backend {
  const backend = servers.quorum({ maxTtl: "24h", memberWait: "2s" });
  const attempt = backend.attempt.bind(backend);
  backend.attempt = (claim) =>
    attempt(claim).catch((cause: unknown) => {
      if (cause instanceof LockBackendError && !cause.fatal) throw new TooSlowError(cause.message);
      throw cause;
    });
  return backend;
}

/**
 * What most members have. close() does not wait for slow ones, and what a minority may still hold blocks no claim: it ends with its ttl.
 * Harmed members are not asked.
 */
async function leftIn(asked: Asked, members: number, prefix?: string): Promise<readonly string[]> {
  const left = await asked.left(prefix);
  const majority = Math.floor(members / 2) + 1;
  return [...new Set(left.flat())].filter((what) => left.filter((one) => one.includes(what)).length >= majority);
}

quorumTests("quorum of three Redis servers", 3);
quorumTests("quorum of five Redis servers", 5);
quorumTests("quorum of five Redis servers, one of them killed", 5, 1, ([first]) => first!.kill());
quorumTests("quorum of five Redis servers, two of them killed", 5, 2, async ([first, second]) => {
  await first!.kill();
  await second!.kill();
});
quorumTests("quorum of five Redis servers, one killed and one stopped", 5, 2, async ([first, second]) => {
  await first!.kill();
  second!.pause();
});
quorumTests("quorum of five Redis servers, two of them stopped", 5, 2, ([first, second]) => {
  first!.pause();
  second!.pause();
});
