import type { EventEmitter } from "node:events";
import { redisPlain } from "../../src/backends/redis-plain/index.ts";
import { startCluster } from "../../src/lab/servers/cluster.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import { type Library, libraries, type Opened } from "../backends/redis/clients.ts";
import { conformanceTests } from "./conformance-tests.ts";

const QUEUE = "a plain lock has no queue: who waits asks again, and the first to ask after a release is granted";
const ONE = "a plain lock is one string with one holder, so it knows neither readers nor a limit";
const META = "a plain lock has no place for what a process says of its queue";
const FORCE = "no message reaches a holder whose lease was ended by force: it learns so from its next renewal";
const NAMES = "keys are the names as they are, and half of a surrogate pair has no form in UTF-8";

const CLIENTS = 4;

function plainTests<Lab extends { stop(): Promise<void> }>(
  library: Library,
  topology: string,
  lab: () => Promise<Lab>,
  connect: (lab: Lab) => Promise<Opened>,
): void {
  const opened: Opened[] = [];
  let running: Lab | undefined;
  let next = 0;
  conformanceTests({
    name: `redis-plain: ${library.name}, ${topology}`,
    member: topology.startsWith("standalone"),
    start: async () => {
      const started = await lab();
      running = started;
      for (let i = 0; i < CLIENTS; i++) opened.push(await connect(started));
      // Without the gap that a process leaves for others after its own lease: test/backends/redis-plain has that.
      return { open: () => redisPlain((opened[next++ % CLIENTS] as Opened).client, { gap: 0 }) };
    },
    emitters: async () =>
      Object.fromEntries(opened.map(({ client }, i) => [`client ${i + 1}`, client as unknown as EventEmitter])),
    stop: async () => {
      await Promise.all(opened.map((one) => one.close()));
      await running?.stop();
    },
    cannot: ["outcomes", "wanted", "steal", "waiters", "linger"],
    declined: {
      "removes a waiting claim on release": QUEUE,
      "grants waiting claims in the order in which they came, even when no message arrives": QUEUE,
      "lets no claim pass the queue, not even one that does not queue": QUEUE,
      "keeps one place for a claim that asks again while it waits": QUEUE,
      "moves the others up when a waiting claim leaves": QUEUE,
      "brings a waiter news when its turn has come": QUEUE,
      "trusts a grant that came as news no longer than the store keeps it": QUEUE,
      "ends a watch when its signal aborts, and keeps the claim's place": QUEUE,
      "does not leave a watch hanging when the grant came before it": QUEUE,
      "hands over in one step: swap() releases one claim and attempts the next": QUEUE,
      "lets those who wait go first in a swap()": QUEUE,
      "shows who waits, in order": QUEUE,
      "leaves nothing in the store after everything has ended": ONE,
      "fences a shared lease at or above the last exclusive one and below the next": ONE,
      "reserves no run where several may hold, so that later holders always have greater fences": ONE,
      "lets shared claims hold together, and an exclusive one only when all have left": ONE,
      "keeps shared claims out while an exclusive one holds, then lets all of them in": ONE,
      "does not let a stream of readers starve a waiting writer": ONE,
      "lets as many hold as the limit says, and one more for each that leaves": ONE,
      "keeps shared and limited claims apart": ONE,
      "refuses a claim whose limit differs from the holders', naming both": ONE,
      "takes a new limit once no claim holds or waits": ONE,
      "ends a dead reader's lease at its own time, though other readers keep renewing": ONE,
      "answers each renewal by itself, in the order asked": ONE,
      "keeps no claim away for a minHold that the release does not name: the lease was never used": ONE,
      "ends by force one of several holders, and leaves the others": ONE,
      "never says busy to a reader's try once the writer is gone, also while a reader of its process waits": ONE,
      "shows who holds: name, mode, limit, holder, fence, age, remaining time and meta": ONE,
      "shows what a process says of its own queue, and writes it anew when it has changed": META,
      "reports to the holder that its lease was ended by force, and why": FORCE,
      "shows one lock by its exact name: who holds it, who waits in which order, who was forced out": QUEUE,
      "takes any string as a name, and never confuses two": NAMES,
    },
  });
}

const withEvents = (): ReturnType<typeof startRedis> => startRedis({ args: ["--notify-keyspace-events", "Kgx"] });
for (const library of Object.values(libraries)) {
  plainTests(library, "standalone, with events", withEvents, ({ port }) => library.standalone(port));
}
plainTests(libraries.ioredis5, "standalone, without events", startRedis, ({ port }) =>
  libraries.ioredis5.standalone(port),
);
plainTests(libraries.ioredis6, "Sentinel", startSentinels, (lab) => libraries.ioredis6.sentinel(lab));
plainTests(libraries.redis6, "Sentinel", startSentinels, (lab) => libraries.redis6.sentinel(lab));
plainTests(libraries.ioredis6, "Cluster", startCluster, (lab) => libraries.ioredis6.cluster(lab));
plainTests(libraries.redis6, "Cluster", startCluster, (lab) => libraries.redis6.cluster(lab));
