import { startCluster } from "../../src/lab/servers/cluster.ts";
import { libraries } from "../backends/redis/clients.ts";
import { redisEntry } from "../backends/redis/conformance-entry.ts";
import { conformanceTests } from "./conformance-tests.ts";

for (const library of [libraries.ioredis6, libraries.redis6]) {
  conformanceTests(redisEntry(library, "Cluster", startCluster, (each, lab) => each.cluster(lab)));
}
