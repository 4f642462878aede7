/** The public names of the guards, under version control: a change here is a change for users. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import * as file from "../../src/fence/file/index.ts";
import * as http from "../../src/fence/http/index.ts";
import * as fence from "../../src/fence/index.ts";
import * as postgres from "../../src/fence/postgres/index.ts";
import * as redis from "../../src/fence/redis/index.ts";
import * as zookeeper from "../../src/fence/zookeeper/index.ts";

test("the guards export these names and no others", () => {
  const names = Object.entries({ fence, file, http, postgres, redis, zookeeper }).map(([subpath, module]) => [
    subpath,
    Object.keys(module).toSorted(),
  ]);
  expect(Object.fromEntries(names)).toEqual({
    fence: [
      "FENCE_HEADER",
      "FenceRejectedError",
      "MAX_FENCE",
      "admit",
      "fenceCeiling",
      "fenceFor",
      "memoryMarks",
      "parseFence",
      "readFenceHeader",
      "writeFenceHeader",
    ],
    file: ["fileMarks", "readFileFenced", "writeFileFenced"],
    http: ["admittedFence", "expressGuard", "fastifyGuard", "fencedFetch", "fetchGuard"],
    postgres: ["FENCE_MIGRATION", "checkFence", "migrateFences", "postgresMarks", "updateFenced", "withFence"],
    redis: ["fenceKey", "redisMarks", "writeFenced"],
    zookeeper: ["writeFenced", "writeWhileHeld"],
  });
});

test("no guard imports a client library or a framework: they are taken by structure", () => {
  const root = join(import.meta.dirname, "../../src/fence");
  const foreign = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) =>
      [...readFileSync(join(root, path), "utf8").matchAll(/from "([^"]+)"/g)].map(([, name]) => name ?? ""),
    )
    .filter((name) => !name.startsWith(".") && !name.startsWith("node:"));
  expect(foreign).toEqual([]);
});
