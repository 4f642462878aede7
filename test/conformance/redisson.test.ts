import type { EventEmitter } from "node:events";
import { redisson, type RedissonKind } from "../../src/backends/redisson/index.ts";
import { startCluster } from "../../src/lab/servers/cluster.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import type { Declined } from "../../src/testing/index.ts";
import { type Library, libraries, type Opened } from "../backends/redis/clients.ts";
import { conformanceTests } from "./conformance-tests.ts";

const QUEUE =
  "a lock of Redisson has no queue: who waits asks again when a release is reported, and the first to ask is granted";
const LIMIT = "a lock of Redisson knows no limit";
const READERS = "an RLock and an RFencedLock of Redisson have one holder, and no readers";
const META = "a lock of Redisson shows neither ids of claims nor what a process says of its queue";
const NAMES = "some braces put the keys of a lock into different slots of a cluster, also for Redisson";
const FORCE = "no message reaches a holder whose lease was ended by force: it learns so from its next renewal";

const DECLINED: Declined = {
  "removes a waiting claim on release": QUEUE,
  "grants waiting claims in the order in which they came, even when no message arrives": QUEUE,
  "lets no claim pass the queue, not even one that does not queue": QUEUE,
  "keeps one place for a claim that asks again while it waits": QUEUE,
  "moves the others up when a waiting claim leaves": QUEUE,
  "ends a watch when its signal aborts, and keeps the claim's place": QUEUE,
  "hands over in one step: swap() releases one claim and attempts the next": QUEUE,
  "lets those who wait go first in a swap()": QUEUE,
  "does not let a stream of readers starve a waiting writer": QUEUE,
  "shows who waits, in order": QUEUE,
  "shows one lock by its exact name: who holds it, who waits in which order, who was forced out": META,
  "shows what a process says of its own queue, and writes it anew when it has changed": META,
  "reports to the holder that its lease was ended by force, and why": FORCE,
  "reserves no run where several may hold, so that later holders always have greater fences": LIMIT,
  "lets as many hold as the limit says, and one more for each that leaves": LIMIT,
  "keeps shared and limited claims apart": LIMIT,
  "refuses a claim whose limit differs from the holders', naming both": LIMIT,
  "takes a new limit once no claim holds or waits": LIMIT,
  "shows who holds: name, mode, limit, holder, fence, age, remaining time and meta": LIMIT,
  "ends by force one of several holders, and leaves the others": LIMIT,
};
const DECLINED_ALONE: Declined = {
  ...DECLINED,
  "leaves nothing in the store after everything has ended": READERS,
  "fences a shared lease at or above the last exclusive one and below the next": READERS,
  "lets shared claims hold together, and an exclusive one only when all have left": READERS,
  "keeps shared claims out while an exclusive one holds, then lets all of them in": READERS,
  "ends a dead reader's lease at its own time, though other readers keep renewing": READERS,
  "answers each renewal by itself, in the order asked": READERS,
  "keeps no claim away for a minHold that the release does not name: the lease was never used": READERS,
  "never says busy to a reader's try once the writer is gone, also while a reader of its process waits": READERS,
};
const DECLINED_IN_A_CLUSTER: Declined = { "takes any string as a name, and never confuses two": NAMES };
const CLIENTS = 4;

function redissonTests<Lab extends { stop(): Promise<void> }>(
  library: Library,
  topology: string,
  kind: RedissonKind,
  lab: () => Promise<Lab>,
  connect: (lab: Lab) => Promise<Opened>,
): void {
  const opened: Opened[] = [];
  let running: Lab | undefined;
  let next = 0;
  conformanceTests({
    name: `redisson, ${kind}: ${library.name}, ${topology}`,
    start: async () => {
      const started = await lab();
      running = started;
      for (let i = 0; i < CLIENTS; i++) opened.push(await connect(started));
      // No Java is there that would shorten a reader's time, and who releases may take it again at once: test/backends/redisson has both.
      const options = { kind, watchdog: "24h", gap: 0 } as const;
      return { open: () => redisson((opened[next++ % CLIENTS] as Opened).client, options) };
    },
    emitters: async () =>
      Object.fromEntries(opened.map(({ client }, i) => [`client ${i + 1}`, client as unknown as EventEmitter])),
    stop: async () => {
      await Promise.all(opened.map((one) => one.close()));
      await running?.stop();
    },
    cannot: ["outcomes", "wanted", "steal", "waiters", "linger"],
    declined: {
      ...(kind === "read-write" ? DECLINED : DECLINED_ALONE),
      ...(topology === "Cluster" && DECLINED_IN_A_CLUSTER),
    },
  });
}

for (const library of Object.values(libraries)) {
  redissonTests(library, "standalone", "read-write", startRedis, ({ port }) => library.standalone(port));
}
redissonTests(libraries.ioredis6, "standalone", "lock", startRedis, ({ port }) => libraries.ioredis6.standalone(port));
redissonTests(libraries.redis6, "standalone", "fenced", startRedis, ({ port }) => libraries.redis6.standalone(port));
redissonTests(libraries.ioredis6, "Sentinel", "fenced", startSentinels, (lab) => libraries.ioredis6.sentinel(lab));
redissonTests(libraries.redis6, "Sentinel", "lock", startSentinels, (lab) => libraries.redis6.sentinel(lab));
redissonTests(libraries.ioredis6, "Cluster", "read-write", startCluster, (lab) => libraries.ioredis6.cluster(lab));
redissonTests(libraries.redis6, "Cluster", "fenced", startCluster, (lab) => libraries.redis6.cluster(lab));
