// Which tests are nearest to a source file, and in which order they are asked.
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";

/** Source folders, and the tests that answer for them. */
const AREAS = [
  [
    /^src\/backends\/redis\//,
    ["test/backends/redis", "test/conformance/redis.test.ts", "test/conformance/redis-cluster.test.ts"],
  ],
  [
    /^src\/backends\/quorum\//,
    ["test/backends/quorum", "test/conformance/quorum.test.ts", "test/conformance/quorum-of-memory.test.ts"],
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
    /^src\/(?:contract|core)\//,
    ["test/core", "test/backends/memory/store.test.ts", "test/conformance/memory.test.ts", "test/testing"],
  ],
];

/** Judge the sources as text, not what they do. */
const ABOUT_TEXT = new Set(["test/backends/redis/lua.test.ts", "test/core/size.test.ts", "test/fence/sources.test.ts"]);
/** Take long, or wait for servers to elect each other: left to a second run, over what `--quick` did not catch. */
const SLOW =
  /^test\/(?:core\/(?:thread|fuzz|process|arguments)|testing\/|simulation\/|backends\/redis\/(?:sentinel|cluster|topologies|waiting|crowds|durability|quarantines|marker|fuzz|open|quirks)|conformance\/(?:redis-|quorum\.)|backends\/quorum\/(?:simulation|model|faults|members|identity|closing|terms|down)|backends\/zookeeper\/(?:faults|interop|fuzz|hostile)|backends\/file\/(?:kills|chaos|death|fuzz|companions|sharing))/;
/** Seconds of testing at once: a red test in the first group saves all others. */
const GROUPS_MS = [4000, 15_000];

export function testsOf(root, file, quick) {
  const area = AREAS.find(([pattern]) => pattern.test(file));
  if (area === undefined) throw new Error(`No tests are known for ${file}: add it to scripts/mutate/nearest.mjs`);
  return area[1]
    .flatMap((path) => testFiles(root, path))
    .filter((path) => !ABOUT_TEXT.has(path) && !(quick && SLOW.test(path)));
}

function testFiles(root, path) {
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
    (basename(test).startsWith(stem) ? 1e9 : 0) + ((catches.get(test) ?? 0) + 0.1) / (timeOf(test) + 300);
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
