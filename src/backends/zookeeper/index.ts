/** ZooKeeper: locks in Curator's layout, and the client below them. */
export type { ZooKeeperBackend } from "./backend.ts";
export type { Acl, AclChoice } from "./client/acl.ts";
export { ZooKeeperClient, type ZooKeeperClientOptions } from "./client/client.ts";
export { ZooKeeperError, type ZooKeeperErrorCode, ZooKeeperMultiError } from "./client/errors.ts";
export type { Children, Created, MultiPart, MultiResult, NodeData } from "./client/operations.ts";
export type { CreateMode, Stat, WatchEvent } from "./client/protocol.ts";
export type { SessionListener } from "./client/session.ts";
export type { Dialect } from "./paths.ts";
export { zookeeper, type ZooKeeperOptions } from "./options.ts";
