/**
 * What a process of Redisson does to Redis, so that the tests need no Java: the commands that its versions 3.19 to 4.7 send, as seen with
 * MONITOR, in words of our own. `npm run judges -- redisson` has the real ones.
 */
import { randomBytes, randomUUID } from "node:crypto";
import type { Cluster, Redis } from "ioredis";

/** Its `lockWatchdogTimeout`. */
const LEASE_MS = 30_000;
const LATCH_MS = 16_000;

/** KEYS: the lock, for a fenced lock its token. ARGV: lease, field. Nil, or for how long it is taken. */
const LOCK = `
  local lock, lease, field = KEYS[1], ARGV[1], ARGV[2]
  local may = redis.call('exists', lock) == 0 or redis.call('hexists', lock, field) == 1
  if not may then return { redis.call('pttl', lock), -1 } end
  local token = KEYS[2] and redis.call('incr', KEYS[2]) or 0
  redis.call('hincrby', lock, field, 1)
  redis.call('pexpire', lock, lease)
  return { -1, token }`;

/** KEYS: the lock, its channel, the latch. ARGV: lease, field, PUBLISH or SPUBLISH, latch. Nil: it is not held. 0: held once less. 1: free. */
const UNLOCK = `
  local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
  local before = redis.call('get', latch)
  if before then return tonumber(before) end
  if redis.call('hexists', lock, ARGV[2]) == 0 then return nil end
  local isFree = redis.call('hincrby', lock, ARGV[2], -1) <= 0
  if isFree then
    redis.call('del', lock)
    redis.call(ARGV[3], channel, '0')
  else
    redis.call('pexpire', lock, ARGV[1])
  end
  redis.call('set', latch, isFree and 1 or 0, 'px', ARGV[4])
  return isFree and 1 or 0`;

/** KEYS: the lock, the reader's deadlines. ARGV: lease, field. */
const READ_LOCK = `
  local lock, deadlines, lease, field = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
  local mode = redis.call('hget', lock, 'mode')
  if mode == 'write' and redis.call('hexists', lock, field .. ':write') == 0 then return redis.call('pttl', lock) end
  if not mode then redis.call('hset', lock, 'mode', 'read') end
  local count = redis.call('hincrby', lock, field, 1)
  redis.call('set', deadlines .. ':' .. count, 1, 'px', lease)
  redis.call('pexpire', lock, math.max(redis.call('pttl', lock), lease))
  return nil`;

/** KEYS: the lock, its channel, the reader's deadlines, what all deadlines start with. ARGV: field. */
const READ_UNLOCK = `
  local lock, field = KEYS[1], ARGV[1]
  local mode = redis.call('hget', lock, 'mode')
  if redis.call('hexists', lock, field) == 0 then return nil end
  local count = redis.call('hincrby', lock, field, -1)
  if count == 0 then redis.call('hdel', lock, field) end
  redis.call('del', KEYS[3] .. ':' .. (count + 1))
  local longest = -3
  for _, each in ipairs(redis.call('hkeys', lock)) do
    for i = tonumber(redis.call('hget', lock, each)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('pttl', KEYS[4] .. ':' .. each .. ':rwlock_timeout:' .. i))
    end
  end
  if redis.call('hlen', lock) > 1 and longest > 0 then
    redis.call('pexpire', lock, longest)
    return 0
  end
  if redis.call('hlen', lock) > 1 and mode == 'write' then return 0 end
  redis.call('del', lock)
  redis.call('publish', KEYS[2], '0')
  return 1`;

/** KEYS: the lock. ARGV: lease, field. */
const WRITE_LOCK = `
  local lock, lease, field = KEYS[1], ARGV[1], ARGV[2] .. ':write'
  local mode = redis.call('hget', lock, 'mode')
  if mode and (mode == 'read' or redis.call('hexists', lock, field) == 0) then return redis.call('pttl', lock) end
  if not mode then redis.call('hset', lock, 'mode', 'write') end
  redis.call('hincrby', lock, field, 1)
  redis.call('pexpire', lock, math.max(redis.call('pttl', lock), 0) + lease)
  return nil`;

/** KEYS: the lock, its channel. ARGV: lease, field. A writer that also reads becomes a reader, and publishes nothing. */
const WRITE_UNLOCK = `
  local lock, field = KEYS[1], ARGV[2] .. ':write'
  if redis.call('hget', lock, 'mode') ~= 'write' or redis.call('hexists', lock, field) == 0 then return nil end
  if redis.call('hincrby', lock, field, -1) > 0 then
    redis.call('pexpire', lock, ARGV[1])
    return 0
  end
  redis.call('hdel', lock, field)
  if redis.call('hlen', lock) > 1 then
    redis.call('hset', lock, 'mode', 'read')
  else
    redis.call('del', lock)
    redis.call('publish', KEYS[2], '1')
  end
  return 1`;

/** KEYS: the lock, what all deadlines start with. ARGV: lease, field. What the watchdog does for a reader: it may make the time shorter. */
const RENEW_READER = `
  local count = redis.call('hget', KEYS[1], ARGV[2])
  if not count then return 0 end
  for i = count, 1, -1 do redis.call('pexpire', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. i, ARGV[1]) end
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 1`;

const tagged = (name: string): string => (name.includes("{") ? name : `{${name}}`);

export class Java {
  readonly id: string = randomUUID();
  readonly #redis: Redis | Cluster;
  readonly #publish: "PUBLISH" | "SPUBLISH";

  constructor(redis: Redis | Cluster, publish: "PUBLISH" | "SPUBLISH" = "PUBLISH") {
    this.#redis = redis;
    this.#publish = publish;
  }

  field(thread: number = 31): string {
    return `${this.id}:${thread}`;
  }

  /** True: it has the lock. */
  async tryLock(name: string, thread?: number): Promise<boolean> {
    const [left] = (await this.#redis.eval(LOCK, 1, name, LEASE_MS, this.field(thread))) as [number, number];
    return left === -1;
  }

  /** 0: another process has it. */
  async tryLockAndGetToken(name: string): Promise<number> {
    const token = `redisson_lock_token:${tagged(name)}`;
    const [left, count] = (await this.#redis.eval(LOCK, 2, name, token, LEASE_MS, this.field())) as [number, number];
    return left === -1 ? count : 0;
  }

  async unlock(name: string, thread?: number): Promise<unknown> {
    const latch = `redisson_unlock_latch:${tagged(name)}:${randomBytes(16).toString("hex")}`;
    const keys = [name, `redisson_lock__channel:${tagged(name)}`, latch];
    const args = [LEASE_MS, this.field(thread), this.#publish, LATCH_MS];
    const answer = await this.#redis.eval(UNLOCK, 3, ...keys, ...args);
    await this.#redis.del(latch);
    return answer;
  }

  async tryReadLock(name: string, leaseMs: number = LEASE_MS): Promise<boolean> {
    const deadlines = `${tagged(name)}:${this.field()}:rwlock_timeout`;
    return (await this.#redis.eval(READ_LOCK, 2, name, deadlines, leaseMs, this.field())) === null;
  }

  readUnlock(name: string): Promise<unknown> {
    const deadlines = `${tagged(name)}:${this.field()}:rwlock_timeout`;
    const keys = [name, `redisson_rwlock:${tagged(name)}`, deadlines, tagged(name)];
    return this.#redis.eval(READ_UNLOCK, 4, ...keys, this.field());
  }

  async tryWriteLock(name: string): Promise<boolean> {
    return (await this.#redis.eval(WRITE_LOCK, 1, name, LEASE_MS, this.field())) === null;
  }

  writeUnlock(name: string): Promise<unknown> {
    return this.#redis.eval(WRITE_UNLOCK, 2, name, `redisson_rwlock:${tagged(name)}`, LEASE_MS, this.field());
  }

  renewReader(name: string, leaseMs: number = LEASE_MS): Promise<unknown> {
    return this.#redis.eval(RENEW_READER, 2, name, tagged(name), leaseMs, this.field());
  }
}
