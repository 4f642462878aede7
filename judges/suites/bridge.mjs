// A process of Holdfast that a test suite in Java asks by lines of text: number, tab, verb, tab, arguments. It answers with the number and words.
//
// A thread of Java that enters a lock again does so inside the async context of its first entry, so that re-entry is Holdfast's own.
import { AsyncLocalStorage } from "node:async_hooks";
import { createInterface } from "node:readline";
import { connect, LockLostError, LockTimeoutError } from "../../dist/index.js";

/** Without a URL, that of HOLDFAST_URL. */
const locks = await connect(...process.argv.slice(2));
/** By who: the stack of what a thread is inside of, or a lease that was taken without waiting. */
const inside = new Map();
const taken = new Map();
let takenLast = 0;

/** @type {Record<string, (...words: string[]) => Promise<string>>} */
const VERBS = {
  async enter(who, name, waitMs) {
    const stack = inside.get(who) ?? [];
    const wait = waitMs === "-1" ? Infinity : Number(waitMs);
    const entry = await enter(stack.at(-1)?.context ?? ((start) => start()), name, wait);
    if (entry === undefined) return "busy";
    stack.push(entry);
    inside.set(who, stack);
    return `held\t${entry.lease.fence}`;
  },

  async leave(who) {
    const entry = inside.get(who)?.pop();
    if (entry === undefined) return "absent";
    entry.leave();
    return await entry.ended;
  },

  /** Whether any thread is inside by this lock object, as the leases themselves say. */
  async within(lock) {
    const entries = [...inside].flatMap(([who, stack]) => (who.startsWith(`${lock}/`) ? stack : []));
    return String(entries.some(({ lease }) => isHeld(lease)));
  },

  async take(name, ttlMs, minHoldMs) {
    const minHold = Number(minHoldMs) > 0 ? { minHold: Number(minHoldMs) } : {};
    const lease = await locks.tryAcquire(name, { ttl: Math.max(100, Number(ttlMs)), renew: false, ...minHold });
    if (lease === null) return "busy";
    taken.set(String(++takenLast), lease);
    return `held\t${takenLast}`;
  },

  async give(id) {
    const lease = taken.get(id);
    if (lease === undefined) return "absent";
    taken.delete(id);
    return await lease.release();
  },

  async extend(id, ttlMs) {
    const lease = taken.get(id);
    if (lease === undefined || !isHeld(lease)) return "lost";
    await lease.extend(Number(ttlMs));
    return "held";
  },

  async held(name) {
    return String(await locks.isHeld(name));
  },
};

function isHeld(lease) {
  try {
    lease.assertHeld();
    return true;
  } catch {
    return false;
  }
}

function enter(context, name, wait) {
  return new Promise((resolve, reject) => {
    const work = (lease) =>
      new Promise((leave) => {
        resolve({ lease, leave, ended, context: AsyncLocalStorage.snapshot() });
      });
    const ended = context(() => locks.run(name, { wait }, work)).then(
      () => "released",
      (error) => {
        if (error instanceof LockLostError) return "lost";
        if (error instanceof LockTimeoutError) resolve(undefined);
        else reject(error);
        return "failed";
      },
    );
  });
}

process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const [number, verb, ...words] = line.split("\t").map((word) => decodeURIComponent(word));
  VERBS[verb](...words).then(
    (answer) => process.stdout.write(`${number}\t${answer}\n`),
    (error) => process.stdout.write(`${number}\terror\t${encodeURIComponent(String(error))}\n`),
  );
}
// The suite has closed the pipe: what it left is given back, and the process ends.
for (const stack of inside.values()) for (const { leave } of stack) leave();
await locks.close({ force: true }).catch(() => {});
