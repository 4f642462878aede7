/** Guards in ZooKeeper: writes that run only under the latest fence, or only while the lock's node is there. */
export type { ZooKeeperLike, ZooKeeperPart } from "./client.ts";
export { type MarkOptions, writeFenced, writeWhileHeld } from "./write.ts";
