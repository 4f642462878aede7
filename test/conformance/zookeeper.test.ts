import { startZooKeeper, type ZooKeeperLab } from "../../src/lab/servers/zookeeper.ts";
import { zookeeper, type ZooKeeperBackend } from "../../src/zookeeper/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

let lab: ZooKeeperLab | undefined;

conformanceTests({
  name: "zookeeper",
  start: async () => {
    const { url } = (lab = await startZooKeeper({ servers: 3 }));
    return {
      // Three quarters of it can be trusted: enough for twice the suite's ttl, as lockDelay needs.
      open: () => zookeeper({ servers: url.slice("zk://".length), session: "3s" }),
      crash: async (backend) => (backend as ZooKeeperBackend).client.abandon(),
      ttlMs: 1000,
    };
  },
  stop: async () => lab?.stop(),
  declined: {
    "keeps shared and limited claims apart":
      "Curator's semaphore and its read/write lock do not see each other on one path, so mixing them is an error, not a wait",
    "waits for no lockDelay after a clean release":
      "the ensemble bounds the session's time-out, so a lockDelay of an hour is refused from the start",
  },
});
