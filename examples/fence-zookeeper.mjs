// A node in ZooKeeper that only the latest holder can write.
//
//   ZOOKEEPER=localhost:2181 node examples/fence-zookeeper.mjs
import { connect } from "holdfast";
import { writeFenced } from "holdfast/fence/zookeeper";
import { ZooKeeperClient } from "holdfast/zookeeper";

const locks = await connect();
const zookeeper = new ZooKeeperClient({ servers: process.env.ZOOKEEPER ?? "localhost:2181" });
await zookeeper.makePath("/invoice-42", "persistent");

const write = (lease, text) =>
  writeFenced(zookeeper, lease, [{ op: "setData", path: "/invoice-42", data: Buffer.from(text), version: -1 }]);

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("invoice:42", { ttl: "200ms", renew: false });

// So the next one gets the lock and writes.
await locks.run("invoice:42", (lease) => write(lease, "paid"));

// Now the first one goes on as if nothing had happened.
await write(paused, "open").catch((error) => console.log(`refused: ${error.code}`));

const { data } = await zookeeper.getData("/invoice-42");
console.log(`the invoice is ${data.toString()}`);
await zookeeper.close();
await locks.close();
