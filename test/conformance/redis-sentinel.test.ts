import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import { libraries } from "../backends/redis/clients.ts";
import { redisEntry } from "../backends/redis/conformance-entry.ts";
import { conformanceTests } from "./conformance-tests.ts";

for (const library of [libraries.ioredis5, libraries.redis6]) {
  conformanceTests(redisEntry(library, "Sentinel", startSentinels, (each, lab) => each.sentinel(lab)));
}
