/** The numbers and records of ZooKeeper's protocol, as far as locks and guards need them. */
import type { Reader } from "./codec.ts";

export const OP = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getChildren: 8,
  sync: 9,
  ping: 11,
  getChildren2: 12,
  check: 13,
  multi: 14,
  create2: 15,
  createContainer: 19,
  auth: 100,
  setWatches: 101,
  closeSession: -11,
} as const;

/** Transaction ids of frames that answer no request of ours, or one that is not counted. */
export const XID = { event: -1, ping: -2, auth: -4, setWatches: -8 } as const;

/** How a create request says when its node ends. */
export const CREATE_FLAGS = {
  persistent: 0,
  ephemeral: 1,
  persistentSequential: 2,
  ephemeralSequential: 3,
  container: 4,
} as const;
export type CreateMode = keyof typeof CREATE_FLAGS;

/** A node's numbers. Ids are 64 bits wide, hence bigint. */
export interface Stat {
  /** The transaction that created the node: the fence, where it is a lock's node. */
  readonly czxid: bigint;
  readonly mzxid: bigint;
  /** Milliseconds since 1970 by the leader's clock. */
  readonly ctimeMs: number;
  readonly mtimeMs: number;
  readonly version: number;
  readonly cversion: number;
  readonly aversion: number;
  /** The session whose end removes the node; 0 for a node that stays. */
  readonly ephemeralOwner: bigint;
  readonly dataLength: number;
  readonly numChildren: number;
  readonly pzxid: bigint;
}

/** Bytes between the czxid and the ephemeralOwner: mzxid, two times, three versions. */
export const STAT_CZXID_TO_OWNER: number = 3 * 8 + 3 * 4;

export function readStat(reader: Reader): Stat {
  return {
    czxid: reader.long(),
    mzxid: reader.long(),
    ctimeMs: Number(reader.long()),
    mtimeMs: Number(reader.long()),
    version: reader.int(),
    cversion: reader.int(),
    aversion: reader.int(),
    ephemeralOwner: reader.long(),
    dataLength: reader.int(),
    numChildren: reader.int(),
    pzxid: reader.long(),
  };
}

export type WatchEventType = "created" | "deleted" | "changed" | "children" | "session";

export interface WatchEvent {
  /** `session`: the session ended, and the watch with it. */
  readonly type: WatchEventType;
  /** As the server names it: with the client's chroot. */
  readonly path: string;
}

const EVENT_TYPES: Readonly<Record<number, WatchEventType>> = {
  1: "created",
  2: "deleted",
  3: "changed",
  4: "children",
};

/** Reads a watch event; `undefined` for kinds that we do not use. */
export function readEvent(reader: Reader): WatchEvent | undefined {
  const type = EVENT_TYPES[reader.int()];
  // The server's view of the session's state: always "connected" where it can still be sent.
  reader.int();
  return type === undefined ? undefined : { type, path: reader.string() };
}
