/**
 * Who takes part over etcd. The lock of the Node client cannot wait: it fails where the lock is taken, and takes a new lease of
 * the cluster each time.
 */
import { built } from "../lib/holdfast.mjs";

export const contestants = {
  holdfast: { own: true, open: (env) => holdfastOver(env) },

  /** Another build, for before and after: only when HOLDFAST_BEFORE names its folder. */
  "holdfast before": { own: true, open: (env) => holdfastOver(env, process.env.HOLDFAST_BEFORE) },

  etcd3: {
    package: "etcd3",
    open: async ({ endpoints }) => {
      const { Etcd3 } = await import("etcd3");
      const client = new Etcd3({ hosts: endpoints.split(",").map((host) => `http://${host}`) });
      await client.get("warm");
      return {
        acquire: (name) => client.lock(name).ttl(30).acquire(),
        release: (lock) => lock.release(),
      };
    },
  },

  // The least that a lock could cost with that client: one lease for all, no queue, no look at who holds.
  "etcd3, put and delete": {
    limit: true,
    package: "etcd3",
    open: async ({ endpoints }) => {
      const { Etcd3 } = await import("etcd3");
      const client = new Etcd3({ hosts: endpoints.split(",").map((host) => `http://${host}`) });
      const lease = client.lease(30);
      const id = await lease.grant();
      return {
        acquire: async (name) => {
          const { succeeded } = await client
            .if(name, "Create", "==", 0)
            .then(client.put(name).value("").lease(id))
            .commit();
          if (!succeeded) throw new Error("the lock was not free");
          return name;
        },
        release: (name) => client.delete().key(name),
      };
    },
  },
};

async function holdfastOver({ endpoints }, dist) {
  const [{ createLocks }, { etcd }] = await Promise.all([
    built("index.js", dist),
    built("backends/etcd/index.js", dist),
  ]);
  const locks = createLocks(etcd({ endpoints, names: "paths" }));
  await (await locks.acquire(`warm-${process.pid}`)).release();
  return {
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
  };
}
