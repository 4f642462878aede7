import { leftInEtcd } from "../../src/lab/leftovers.ts";
import { type EtcdLab, startEtcd } from "../../src/lab/servers/etcd.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import { TooSlowError } from "../../src/testing/trial.ts";
import { etcd, type EtcdBackend, EtcdClient } from "../../src/backends/etcd/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

/**
 * A question has a quarter of the ttl, so that another member could be asked. Where the only one takes longer the machine was too
 * slow, and the check starts again with a longer ttl; at eight times the ttl it fails.
 */
function patient(backend: EtcdBackend): EtcdBackend {
  const attempt = backend.attempt.bind(backend);
  backend.attempt = (claim) =>
    attempt(claim).catch((cause: unknown) => {
      if (cause instanceof LockBackendError && !cause.fatal) throw new TooSlowError(cause.message);
      throw cause;
    });
  return backend;
}

let lab: EtcdLab | undefined;
let observer: EtcdClient | undefined;

conformanceTests({
  name: "etcd",
  start: async () => {
    const { endpoints } = (lab = await startEtcd());
    observer = new EtcdClient({ endpoints });
    return {
      open: () => patient(etcd({ endpoints })),
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
  cannot: ["otherTtl", "steal", "linger"],
});
