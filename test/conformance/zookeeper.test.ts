import { leftInZooKeeper } from "../../src/lab/leftovers.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../src/lab/servers/zookeeper.ts";
import { zookeeper, type ZooKeeperBackend, ZooKeeperClient } from "../../src/backends/zookeeper/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

let lab: ZooKeeperLab | undefined;
let observer: ZooKeeperClient | undefined;

conformanceTests({
  name: "zookeeper",
  start: async () => {
    const { url } = (lab = await startZooKeeper({ servers: 3 }));
    observer = new ZooKeeperClient({ servers: url.slice("zk://".length) });
    return {
      // Three quarters of it can be trusted: enough for twice the suite's ttl, as lockDelay needs.
      open: () => zookeeper({ servers: url.slice("zk://".length), session: "12s" }),
      crash: async (backend) => (backend as ZooKeeperBackend).client.abandon(),
      ttlMs: 1000,
      ttlMaxMs: 4400,
      left: (prefix) => leftInZooKeeper(observer as ZooKeeperClient, prefix),
    };
  },
  left: () => leftInZooKeeper(observer as ZooKeeperClient),
  stop: async () => {
    await observer?.close();
    await lab?.stop();
  },
  cannot: ["outcomes", "otherTtl", "steal", "linger"],
  declined: {
    "says of a lock that is only kept for its lockDelay that no claim holds it":
      "the ensemble counts the time of a session, not of a lease: a node looks the same while it is held and during its lockDelay",
    "keeps shared and limited claims apart":
      "Curator's semaphore and its read/write lock do not see each other on one path, so mixing them is an error, not a wait",
    "waits for no lockDelay after a clean release":
      "the ensemble bounds the session's time-out, so a lockDelay of an hour is refused from the start",
  },
});
