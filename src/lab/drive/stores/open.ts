/** Opens a store for the driver by name. */
import type { ClientLibrary } from "../connections.ts";
import type { Holdfast } from "../library.ts";
import type { StoreName } from "../store.ts";
import type { OpenedStore } from "./opened.ts";
import { driveEtcd } from "./etcd.ts";
import { driveFile } from "./file.ts";
import { drivePostgres } from "./postgres.ts";
import { driveQuorum, driveRedis } from "./redis.ts";
import { driveCluster, driveSentinel } from "./replicated.ts";
import { driveZooKeeper } from "./zookeeper.ts";

export function openDrivenStore(
  name: StoreName,
  holdfast: Holdfast,
  client: ClientLibrary,
  dist: string | undefined,
): Promise<OpenedStore> {
  switch (name) {
    case "redis":
      return driveRedis(holdfast, client);
    case "quorum":
      return driveQuorum(holdfast, client);
    case "zookeeper":
      return driveZooKeeper(holdfast);
    case "postgres":
      return drivePostgres(holdfast);
    case "etcd":
      return driveEtcd(holdfast);
    case "sentinel":
      return driveSentinel(holdfast, client);
    case "cluster":
      return driveCluster(holdfast, client);
    case "file":
      return driveFile(holdfast, dist);
  }
}
