/**
 * A process that takes one lock for a reason, and holds it until a message says to let go.
 *
 *   node lease-process.mjs <dist> <port> <name> <reason>
 *
 * Says "held" when it has it. Any message makes it release.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";

const [dist, port, name, reason] = process.argv.slice(2);
const built = (path) => import(pathToFileURL(join(dist, path)).href);
const [{ createLocks }, { redis }] = await Promise.all([built("index.js"), built("backends/redis/index.js")]);
const client = new Redis(Number(port), "127.0.0.1", { password: process.env.HOLDFAST_LAB_PASSWORD });
const locks = createLocks(redis(client), { holder: `other:${process.pid}`, wait: Infinity, meta: { reason } });
const asked = new Promise((resolve) => process.once("message", resolve));
await locks.run(name, async () => {
  process.send("held");
  await asked;
});
await locks.close();
client.disconnect();
process.disconnect();
