/** How contestants over Redis keep many leases alive, and how they wait where the usual acquire() is not what is measured. */

import { randomBytes } from "node:crypto";

const BATCH = 500;
const ID_LENGTH = 22;
/** Ids come in one argument, as ours do: half as many arguments to send and to read. */
const RENEW = `local n = 0
for i, key in ipairs(KEYS) do
  if redis.call("GET", key) == string.sub(ARGV[2], (i - 1) * ${ID_LENGTH} + 1, i * ${ID_LENGTH}) then
    n = n + redis.call("PEXPIRE", key, ARGV[1])
  end
end
return n`;
const GIVE = `if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[1], ARGV[2], "PX", 30000)
redis.call("PUBLISH", ARGV[3], "")
return 1`;

async function inBatches(count, step) {
  for (let from = 0; from < count; from += BATCH) {
    await Promise.all(Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => step(from + i)));
  }
}

/** How many of the keys that the library wrote are gone though they were not released. */
async function missing(client, keys) {
  let present = 0;
  for (let from = 0; from < keys.length; from += BATCH)
    present += await client.exists(...keys.slice(from, from + BATCH));
  return keys.length - present;
}

/** Each gives `hold({ count, ttlMs, name })` and `drop()`, which tells how many leases were lost in between. */
export const holding = {
  raw(client, loaded) {
    let keys = [];
    let timer;
    return {
      hold: async ({ count, ttlMs, name }) => {
        const sha = await loaded(client, RENEW);
        keys = Array.from({ length: count }, (_, i) => `${name}-${i}`);
        // Every lease has an id of its own, as a lock's must.
        const ids = keys.map(() => randomBytes(16).toString("base64url"));
        await inBatches(count, (i) => client.set(keys[i], ids[i], "PX", ttlMs, "NX"));
        const batches = [];
        for (let from = 0; from < count; from += BATCH) {
          const some = keys.slice(from, from + BATCH);
          batches.push([some.length, ...some, ttlMs, ids.slice(from, from + BATCH).join("")]);
        }
        timer = setInterval(() => {
          for (const batch of batches) void client.evalsha(sha, ...batch);
        }, ttlMs / 3);
      },
      drop: async () => {
        clearInterval(timer);
        const lost = await missing(client, keys);
        await inBatches(keys.length, (i) => client.del(keys[i]));
        return lost;
      },
    };
  },

  holdfast(createLocks, redis, client) {
    let leases = [];
    let locks;
    return {
      hold: async ({ count, ttlMs, name }) => {
        locks = createLocks(redis(client), { ttl: ttlMs });
        leases = [];
        await inBatches(count, async (i) => leases.push(await locks.acquire(`${name}-${i}`)));
      },
      drop: async () => {
        const results = await Promise.all(leases.map((lease) => lease.release()));
        await locks.close();
        return results.filter((result) => result !== "released").length;
      },
    };
  },

  redlock(redlock, client) {
    let end;
    let keys = [];
    let all = [];
    return {
      hold: async ({ count, ttlMs, name }) => {
        keys = Array.from({ length: count }, (_, i) => `${name}-${i}`);
        const over = new Promise((resolve) => (end = resolve));
        all = [];
        await inBatches(
          count,
          (i) =>
            new Promise((taken) => {
              const held = redlock.using([keys[i]], ttlMs, () => {
                taken();
                return over;
              });
              all.push(held.catch(() => {}));
            }),
        );
      },
      drop: async () => {
        const lost = await missing(client, keys);
        end();
        await Promise.all(all);
        return lost;
      },
    };
  },

  semaphore(Mutex, client) {
    let held = [];
    let lost = 0;
    return {
      hold: async ({ count, ttlMs, name }) => {
        lost = 0;
        held = Array.from(
          { length: count },
          (_, i) => new Mutex(client, `${name}-${i}`, { lockTimeout: ttlMs, onLockLost: () => lost++ }),
        );
        await inBatches(count, (i) => held[i].acquire());
      },
      drop: async () => {
        await Promise.all(held.map((mutex) => mutex.release()));
        return lost;
      },
    };
  },

  universal(createLock, adapter, client) {
    let end;
    let keys = [];
    let all = [];
    return {
      hold: async ({ count, ttlMs, name }) => {
        keys = Array.from({ length: count }, (_, i) => `${name}-${i}`);
        const over = new Promise((resolve) => (end = resolve));
        all = [];
        await inBatches(
          count,
          (i) =>
            new Promise((taken) => {
              const lock = createLock({ adapter, key: keys[i], ttl: ttlMs });
              const using = lock.using(() => {
                taken();
                return over;
              });
              all.push(using.catch(() => {}));
            }),
        );
      },
      drop: async () => {
        const lost = await missing(client, keys);
        end();
        await Promise.all(all);
        return lost;
      },
    };
  },

  redisson(Redisson, options, client) {
    let held = [];
    let keys = [];
    let redisson;
    return {
      hold: async ({ count, ttlMs, name }) => {
        redisson ??= new Redisson({ ...options, lockWatchdogTimeout: BigInt(ttlMs) });
        keys = Array.from({ length: count }, (_, i) => `${name}-${i}`);
        held = keys.map((key) => redisson.getLock(key));
        await inBatches(count, (i) => held[i].lock());
      },
      drop: async () => {
        const lost = await missing(client, keys);
        await inBatches(held.length, (i) => held[i].unlock());
        return lost;
      },
    };
  },
};

export const waiting = {
  /**
   * Two processes that pass a lock to and fro. The other one always wants it, so that a release gives it away at once:
   * nothing is looked up, and nothing can go wrong. No lock can be faster over this client.
   */
  rawPush(client, subscriber, loaded) {
    let granted = false;
    let wake;
    let inbox;
    subscriber.on("message", () => {
      granted = true;
      wake?.();
    });
    return {
      acquire: async (name, { index, untilMs }) => {
        if (inbox !== `${name}:${index}`) {
          if (inbox !== undefined) await subscriber.unsubscribe();
          inbox = `${name}:${index}`;
          granted = false;
          await subscriber.subscribe(inbox);
          if (index === 0) granted = (await client.set(name, inbox, "PX", 30_000, "NX")) === "OK";
          // Given to us before we listened.
          else granted = (await client.get(name)) === inbox;
        }
        if (!granted) {
          let timer;
          await new Promise((resolve) => {
            wake = resolve;
            timer = setTimeout(resolve, Math.max(0, untilMs - performance.now()) + 50);
          });
          clearTimeout(timer);
          wake = undefined;
        }
        if (!granted) return undefined;
        granted = false;
        return { name, other: `${name}:${1 - index}` };
      },
      release: async ({ name, other }) => {
        // Loaded once; the answer is cached by the client's own bookkeeping below.
        rawPushSha ??= await loaded(client, GIVE);
        await client.evalsha(rawPushSha, 1, name, inbox, other, other);
      },
    };
  },

  /**
   * Many waiters on one lock, each with a claim of its own in the store: every one has its own createLocks(), because one
   * alone would send only its first. They share a connection and an inbox, as the waiters of one process do.
   */
  holdfast(createLocks, backend) {
    let stop;
    let loops = [];
    let record;
    return {
      gather: async ({ waiters, name }) => {
        stop = new AbortController();
        const { signal } = stop;
        const wait = async (loop) => {
          const locks = createLocks(backend, { ttl: "30s", wait: Infinity, signal });
          while (!signal.aborted) {
            const askedMs = performance.now();
            const lease = await locks.acquire(name).catch(() => undefined);
            if (lease === undefined) return;
            const enteredMs = performance.now();
            await new Promise((resolve) => setImmediate(resolve));
            record?.(askedMs, enteredMs, performance.now(), loop, Number(lease.fence));
            await lease.release();
          }
        };
        loops = Array.from({ length: waiters }, (_, loop) => wait(loop));
      },
      /** From now on sections are reported to `to`; undefined: not any more. */
      listen: (to) => (record = to),
      scatter: async () => {
        stop.abort();
        await Promise.all(loops);
      },
    };
  },
};

let rawPushSha;
