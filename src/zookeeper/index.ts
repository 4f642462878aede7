/** ZooKeeper: the client, for guards and for whoever needs more than locks. */
export { ZooKeeperClient, type ZooKeeperClientOptions } from "./client/client.ts";
export { ZooKeeperError, type ZooKeeperErrorCode, ZooKeeperMultiError } from "./client/errors.ts";
export type { Children, Created, MultiPart, MultiResult, NodeData } from "./client/operations.ts";
export type { CreateMode, Stat, WatchEvent } from "./client/protocol.ts";
export type { SessionListener } from "./client/session.ts";
