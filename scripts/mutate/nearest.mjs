// Which tests are nearest to a source file, and in which order they are asked.
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";

const REDIS = ["test/backends/redis", "test/conformance/redis.test.ts", "test/conformance/redis-cluster.test.ts"];
const CORE = [
  "test/core",
  "test/backends/memory/store.test.ts",
  "test/conformance/memory.test.ts",
  "test/testing",
  "test/simulation",
];
const within = (folder, names) => names.split(" ").map((name) => `test/${folder}/${name}.test.ts`);

/** Source files, the tests that answer for them, and those for a quick look where SLOW does not say it. The first that fits counts. */
const AREAS = [
  [
    /^src\/backends\/redis\/lua\/(?:_incarnation|_identity|_replicas|vote|meet|end-quarantine|recall)\.lua$/,
    REDIS,
    within("backends/redis", "noticed costs marked marker quarantines fences timed"),
  ],
  [
    /^src\/backends\/redis\/lua\/(?:_queue|beat)\.lua$/,
    REDIS,
    within("backends/redis", "noticed costs reference timed messages crowds keeping limits"),
  ],
  [
    /^src\/backends\/redis\/lua\/(?:_wake|wake|finish|forget|_outcome)\.lua$/,
    REDIS,
    within("backends/redis", "noticed costs timed outcomes"),
  ],
  [
    /^src\/backends\/redis\/lua\//,
    REDIS,
    within("backends/redis", "noticed costs reference timed keeping fences renewal messages wanted limits"),
  ],
  [
    /^src\/backends\/redis\/layouts\//,
    [
      "test/backends/redis-plain",
      "test/backends/redisson",
      "test/conformance/redis-plain.test.ts",
      "test/conformance/redisson.test.ts",
    ],
    [
      ...within("backends/redis-plain", "foreign lost-replies member mixed open"),
      ...within("backends/redisson", "fenced foreign-data lock lost-replies open read-write"),
      ...within("backends/redis", "layouts parts"),
      "test/conformance/redis-plain.test.ts",
    ],
  ],
  [
    /^src\/backends\/redis\/(?:clients\/|(?:tls|url|open|errors|connection)\.ts)/,
    REDIS,
    within(
      "backends/redis",
      "noticed edges asking limits made-clients used-clients connections adapters url gathered names tls open answers",
    ),
  ],
  [
    /^src\/backends\/redis\/(?:durability|server-checks)\.ts/,
    REDIS,
    within("backends/redis", "noticed edges connections parts sampled durability topologies quarantines"),
  ],
  [
    /^src\/backends\/redis\//,
    REDIS,
    within(
      "backends/redis",
      "noticed sampled edges asking connections limits pace words parts adapters reference keeping fences keys renewal messages queue inbox late-messages replies url names subscriber defaults quarantines wanted inspect",
    ),
  ],
  [
    /^src\/backends\/quorum\//,
    ["test/backends/quorum", "test/conformance/quorum.test.ts", "test/conformance/quorum-of-memory.test.ts"],
    [
      ...within(
        "backends/quorum",
        "noticed edges backoff ballot round close majority down waiting contention members member-terms model identity inspect other-ttl",
      ),
      "test/conformance/quorum-of-memory.test.ts",
    ],
  ],
  [/^src\/backends\/zookeeper\//, ["test/backends/zookeeper", "test/conformance/zookeeper.test.ts"]],
  [/^src\/backends\/file\//, ["test/backends/file", "test/conformance/file.test.ts"]],
  [/^src\/fence\//, ["test/fence"]],
  [
    /^src\/backends\/memory\//,
    ["test/backends/memory/store.test.ts", "test/conformance/memory.test.ts", "test/testing", "test/core"],
  ],
  [/^src\/testing\//, ["test/testing", "test/conformance/memory.test.ts", "test/simulation"]],
  [
    /^src\/contract\/mask-secrets\.ts$/,
    [...within("cli", "mask secrets foreign fuzz"), "test/core"],
    [...within("cli", "mask"), ...within("core", "contract noticed")],
  ],
  [/^src\/contract\/foreign\.ts$/, [...within("cli", "text foreign"), "test/core"]],
  [
    /^src\/(?:connect|backends\/[^/]+)\.ts$/,
    [...within("core", "noticed arguments bad-input"), ...within("cli", "secrets url-file")],
    within("core", "noticed arguments bad-input"),
  ],
  [/^src\/core\/renew-thread[^/]*\.ts$/, within("core", "noticed thread process"), within("core", "noticed thread")],
  [/^src\/(?:contract|core)\//, CORE],
];

/** Judge the sources as text, not what they do. */
const ABOUT_TEXT = new Set(["test/backends/redis/lua.test.ts", "test/core/size.test.ts", "test/fence/sources.test.ts"]);
/** Take long, wait for servers to elect each other, or need Vitest itself: left to a second run, over what `--quick` did not catch. */
const SLOW =
  /^test\/(?:cli\/|core\/(?:thread|fuzz|process|arguments|unloaded)|testing\/|simulation\/|backends\/zookeeper\/(?:faults|interop|fuzz|hostile)|backends\/file\/(?:kills|chaos|death|fuzz|companions|sharing))/;
/** Holds, in each folder, tests against bugs that lived. */
const NOTICED = "noticed.test.ts";
/** Single tests that take as long as all others of their file: also left to the second run. */
export const SLOW_TESTS = [
  "100,000 held leases need one timer",
  "100,000 locks: those with the greatest wait stay",
  "S128: a listener that releases another lease",
  "S139: 20,000 re-entries into each other",
];
/** Seconds of testing at once: a red test in the first group saves all others. */
const GROUPS_MS = [4000, 15_000];

export function testsOf(root, file, quick) {
  const area = AREAS.find(([pattern]) => pattern.test(file));
  if (area === undefined) throw new Error(`No tests are known for ${file}: add it to scripts/mutate/nearest.mjs`);
  const [, all, nearest] = area;
  return (quick && nearest ? nearest : all)
    .flatMap((path) => testFiles(root, path))
    .filter((path) => !ABOUT_TEXT.has(path) && !(quick && nearest === undefined && SLOW.test(path)));
}

/** By path: as it was when first asked for. A test that is written meanwhile is not in the copy, and would be red there. */
const found = new Map();

function testFiles(root, path) {
  const known = found.get(path) ?? lookFor(root, path);
  found.set(path, known);
  return known;
}

function lookFor(root, path) {
  if (!existsSync(join(root, path))) return [];
  if (!statSync(join(root, path)).isDirectory()) return [path];
  return readdirSync(join(root, path))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${path}/${name}`);
}

/** Groups of test files: those of the same name first, then those that caught most for their time. */
export function inGroups(file, tests, times, catches) {
  const stem = basename(file)
    .replace(/\.\w+$/, "")
    .replace(/^_/, "")
    .replace(/-worker$/, "");
  const rank = (test) =>
    (basename(test).startsWith(stem) || basename(test) === NOTICED ? 1e9 : 0) +
    ((catches.get(test) ?? 0) + 0.1) / (timeOf(test) + 300);
  const timeOf = (test) => times.get(test) ?? 5000;
  const groups = [[]];
  let spentMs = 0;
  for (const test of tests.toSorted((a, b) => rank(b) - rank(a))) {
    if (spentMs > (GROUPS_MS[groups.length - 1] ?? Infinity)) {
      groups.push([]);
      spentMs = 0;
    }
    groups.at(-1).push(test);
    spentMs += timeOf(test);
  }
  return groups.map((files) => ({ files, ms: files.reduce((sum, test) => sum + timeOf(test), 0) }));
}
