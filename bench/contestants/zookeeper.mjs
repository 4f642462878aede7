/**
 * Who takes part over ZooKeeper. The Node clients bring no lock, so that theirs is the recipe at its shortest: create an
 * ephemeral sequential node, list, and be the first. It cannot wait, and does not survive a lost reply.
 */
import { built } from "../lib/holdfast.mjs";

const PREFIX = "lock-";

/** The recipe over three functions of a client. The parent of each name is made once. */
function recipe({ makeParent, createSequential, list, remove }) {
  const parents = new Map();
  return {
    acquire: async (name) => {
      const parent = `/bench-${name}`;
      let made = parents.get(name);
      if (made === undefined) parents.set(name, (made = makeParent(parent)));
      await made;
      const path = await createSequential(`${parent}/${PREFIX}`);
      const children = await list(parent);
      const mine = path.slice(parent.length + 1);
      if (children.some((child) => child < mine)) throw new Error("the lock was not free");
      return path;
    },
    release: (path) => remove(path),
  };
}

const promised = (call) =>
  new Promise((resolve, reject) => {
    call((error, value) => (error ? reject(error) : resolve(value)));
  });

export const contestants = {
  holdfast: {
    own: true,
    open: async ({ port }) => {
      const [{ createLocks }, { zookeeper }] = await Promise.all([
        built("index.js"),
        built("backends/zookeeper/index.js"),
      ]);
      const locks = createLocks(zookeeper({ servers: `127.0.0.1:${port}` }));
      await (await locks.acquire(`warm-${process.pid}`)).release();
      return {
        acquire: (name) => locks.acquire(name, { wait: Infinity }),
        release: (lease) => lease.release(),
        fence: (lease) => lease.fence,
      };
    },
  },

  "node-zookeeper-client": {
    package: "node-zookeeper-client",
    open: async ({ port }) => {
      const { default: zookeeper } = await import("node-zookeeper-client");
      const client = zookeeper.createClient(`127.0.0.1:${port}`, { sessionTimeout: 30_000 });
      await new Promise((resolve) => {
        client.once("connected", resolve);
        client.connect();
      });
      return recipe({
        makeParent: (path) => promised((done) => client.mkdirp(path, done)),
        createSequential: (path) =>
          promised((done) => client.create(path, null, zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL, done)),
        list: (path) => promised((done) => client.getChildren(path, done)),
        remove: (path) => promised((done) => client.remove(path, -1, done)),
      });
    },
  },

  "native zookeeper": {
    package: "zookeeper",
    open: async ({ port }) => {
      const { default: ZooKeeper } = await import("zookeeper");
      const client = new ZooKeeper({
        connect: `127.0.0.1:${port}`,
        timeout: 30_000,
        debug_level: 1,
        host_order_deterministic: false,
      });
      await new Promise((resolve) => {
        client.once("connect", resolve);
        client.init({});
      });
      const { ZOO_EPHEMERAL, ZOO_SEQUENCE } = ZooKeeper.constants;
      return recipe({
        makeParent: (path) => client.create(path, "", 0),
        createSequential: (path) => client.create(path, "", ZOO_EPHEMERAL | ZOO_SEQUENCE),
        list: (path) => client.get_children(path, false),
        remove: (path) => client.delete_(path, -1),
      });
    },
  },
};
