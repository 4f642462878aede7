// A key in etcd that only the latest holder can write.
//
//   ETCD=localhost:2379 node examples/fence-etcd.mjs
import { connect } from "holdfast";
import { EtcdClient } from "holdfast/etcd";
import { writeFenced } from "holdfast/fence/etcd";

const locks = await connect();
const etcd = new EtcdClient({ endpoints: process.env.ETCD ?? "localhost:2379" });
const key = Buffer.from("/invoices/42");

const write = (lease, text) => writeFenced(etcd, lease, [{ put: { key, value: Buffer.from(text), lease: 0n } }]);

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("invoice:42", { ttl: "1s", renew: false });

// So the next one gets the lock and writes.
await locks.run("invoice:42", (lease) => write(lease, "paid"));

// Now the first one goes on as if nothing had happened.
await write(paused, "open").catch((error) => console.log(`refused: ${error.code}`));

const { kvs } = await etcd.range({ key });
console.log(`the invoice is ${kvs[0].value.toString()}`);
await etcd.close();
await locks.close();
