/** redis-semaphore 5 itself and the drop-in, by the same names; and its six classes, by what they have in common. */
import type { Redis } from "ioredis";
import * as theirs from "redis-semaphore";
import * as ours from "../../../src/drop-ins/redis-semaphore/index.ts";

export type Library = typeof ours;
export type Options = ours.LockOptions;
type AnyLock = ours.Mutex | ours.RedlockMutex;

export { ours };
export const BOTH: readonly (readonly [string, Library])[] = [
  ["redis-semaphore 5", theirs as unknown as Library],
  ["holdfast/redis-semaphore", ours],
];

export interface Kind {
  readonly name: string;
  /** As its errors call it. */
  readonly words: string;
  readonly servers: 1 | 3;
  /** Before the key, in Redis. */
  readonly prefix: string;
  /** How many of these hold at once. */
  readonly holders: number;
  readonly make: (library: Library, clients: readonly Redis[], key: string, options?: Options) => AnyLock;
  /** Its members in the sorted set; none: its key is a string. */
  readonly members: (identifier: string) => readonly string[];
}

const none = (): readonly string[] => [];
const one = (identifier: string): readonly string[] => [identifier];
const two = (identifier: string): readonly string[] => [`${identifier}_0`, `${identifier}_1`];

export const KINDS: readonly Kind[] = [
  {
    name: "Mutex",
    words: "mutex mutex:",
    servers: 1,
    prefix: "mutex:",
    holders: 1,
    make: ({ Mutex }, [client], key, options) => new Mutex(client!, key, options),
    members: none,
  },
  {
    name: "Semaphore",
    words: "semaphore semaphore:",
    servers: 1,
    prefix: "semaphore:",
    holders: 2,
    make: ({ Semaphore }, [client], key, options) => new Semaphore(client!, key, 2, options),
    members: one,
  },
  {
    name: "MultiSemaphore",
    words: "multi-semaphore semaphore:",
    servers: 1,
    prefix: "semaphore:",
    holders: 2,
    make: ({ MultiSemaphore }, [client], key, options) => new MultiSemaphore(client!, key, 4, 2, options),
    members: two,
  },
  {
    name: "RedlockMutex",
    words: "redlock-mutex mutex:",
    servers: 3,
    prefix: "mutex:",
    holders: 1,
    make: ({ RedlockMutex }, clients, key, options) => new RedlockMutex([...clients], key, options),
    members: none,
  },
  {
    name: "RedlockSemaphore",
    words: "redlock-semaphore semaphore:",
    servers: 3,
    prefix: "semaphore:",
    holders: 2,
    make: ({ RedlockSemaphore }, clients, key, options) => new RedlockSemaphore([...clients], key, 2, options),
    members: one,
  },
  {
    name: "RedlockMultiSemaphore",
    words: "redlock-multi-semaphore semaphore:",
    servers: 3,
    prefix: "semaphore:",
    holders: 2,
    make: ({ RedlockMultiSemaphore }, clients, key, options) =>
      new RedlockMultiSemaphore([...clients], key, 4, 2, options),
    members: two,
  },
];
