import { leftInEtcd } from "../../src/lab/leftovers.ts";
import { type EtcdLab, startEtcd } from "../../src/lab/servers/etcd.ts";
import { etcd, type EtcdBackend, EtcdClient } from "../../src/backends/etcd/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

let lab: EtcdLab | undefined;
let observer: EtcdClient | undefined;

conformanceTests({
  name: "etcd",
  start: async () => {
    const { endpoints } = (lab = await startEtcd());
    observer = new EtcdClient({ endpoints });
    return {
      open: () => etcd({ endpoints }),
      crash: (backend) => (backend as EtcdBackend).abandon(),
      // etcd counts in whole seconds, and looks for leases that are over twice in one.
      ttlMs: 2000,
      left: (prefix) => leftInEtcd(observer as EtcdClient, prefix),
    };
  },
  left: () => leftInEtcd(observer as EtcdClient),
  stop: async () => {
    await observer?.close();
    await lab?.stop();
  },
  cannot: ["otherTtl", "steal"],
});
