import { startRedis } from "../../src/lab/servers/redis.ts";
import { libraries } from "../backends/redis/clients.ts";
import { redisEntry } from "../backends/redis/conformance-entry.ts";
import { conformanceTests } from "./conformance-tests.ts";

for (const library of Object.values(libraries)) {
  conformanceTests(redisEntry(library, "standalone", startRedis, (each, { port }) => each.standalone(port)));
}
