// A client of Web Locks in a process of its own: does what it is sent, and reports what becomes of each request.
import { connect } from "../../../dist/index.js";
import { webLocks } from "../../../dist/drop-ins/web-locks/index.js";

const [, , url, options] = process.argv;
const locks = await connect(url, JSON.parse(options));
const manager = webLocks(locks);
const releases = new Map();

process.on("message", (message) => void serve(message));
process.send({ event: "ready" });

async function serve({ id, op, name, options = {} }) {
  if (op === "release") return releases.get(id)?.();
  if (op === "close") return await locks.close({ grace: 0, force: true }).then(() => process.disconnect());
  const until = new Promise((resolve) => releases.set(id, resolve));
  const work = (lock) => {
    process.send({ id, event: lock === null ? "none" : "granted", fence: String(lock?.fence) });
    lock?.signal.addEventListener("abort", () => process.send({ id, event: "lost", error: lock.signal.reason.name }));
    return lock === null ? undefined : until;
  };
  try {
    await manager.request(name, options, work);
    return process.send({ id, event: "resolved" });
  } catch (error) {
    return process.send({ id, event: "rejected", error: error.name, cause: error.cause?.name });
  }
}
