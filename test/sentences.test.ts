/**
 * Every sentence of the documentation and of the comments that speaks of every backend, store, client, library or topology has its
 * row here: where it is shown on each of them, or what else it is about. A new such sentence needs a row; or other words, that are true.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BACKEND_NAMES } from "../src/backends/all.ts";
import { ROOT } from "./dist.ts";

const SAYS =
  /\b(?:every|all|each|any|whichever)\s+(?:of\s+)?(?:the\s+|other\s+|their\s+)?(?:backend|store|client librar|client|librar|topolog)(?:s|y|ies)?\b/giu;

/** A test file, and words that stand in it: the row of a matrix. */
type Shown = readonly [file: string, words: string];
type Row = readonly [path: string, words: string, ...shown: readonly Shown[]];

const CONFORMANCE: readonly Shown[] = [
  "file",
  "memory",
  "quorum-of-memory",
  "quorum",
  "postgres",
  "shedlock",
  "redis-plain",
  "redisson",
  "redis",
  "redis-cluster",
  "redis-sentinel",
  "zookeeper",
  "etcd",
].map((backend) => [`test/conformance/${backend}.test.ts`, "conformanceTests("]);

const STEPS: Shown = ["test/cli/matrix.test.ts", "acquire, renew and release"];
const CLOSE: Shown = ["test/backends/redis/matrix.test.ts", "back as it was"];
const OPENED: Shown = ["test/backends/redis/matrix.test.ts", "that was opened by URL"];
const SCENARIOS: Shown = ["test/lab/scenarios.test.ts", "scenario"];

/** Promises, and where each is kept to on all that it speaks of. */
const PROMISES: readonly Row[] = [
  ["docs/cli.md", "It works on every store whose leases outlive their process", STEPS],
  ["docs/fencing.md", "it works with the fences of any backend", ["test/fence/fenced.test.ts", "fence"]],
  ["docs/safety.md", "On every backend", ...CONFORMANCE, SCENARIOS],
  [
    "docs/safety.md",
    "the simulation hold every backend against it",
    ...CONFORMANCE,
    ["test/simulation/seeds.ts", "seed"],
  ],
  [
    "src/fence/fenced.ts",
    "every store's number fits in a signed 64-bit integer",
    ["test/fence/exclusive.test.ts", "fence"],
  ],
  ["src/lab/run.ts", "every backend for which a scenario promises something", SCENARIOS],
  ["src/lab/run.ts", "on every backend that applies", SCENARIOS],
  [
    "src/backends/postgres/open.ts",
    "with whichever client library is installed; and closes what it opened",
    ["test/backends/postgres/open.test.ts", "that was opened by URL"],
  ],
  ["src/backends/redis/open.ts", "with whichever client library is installed; and closes what it opened", OPENED],
  ["src/backends/redis/subscriber.ts", "whichever the client library and the topology", CLOSE],
  ["docs/testing.md", "every promise on every backend", ...CONFORMANCE],
  ["src/testing/conformance.ts", "what every backend promises, as data", ...CONFORMANCE],
  ["src/testing/conformance.ts", "What every backend promises", ...CONFORMANCE],
];

/** Words that promise nothing of all backends or clients, and what they are about instead. */
const OTHERS: Readonly<Record<string, readonly (readonly [path: string, words: string])[]>> = {
  "a warning: what no backend can do, or what any client may do": [
    ["SECURITY.md", "That is every client of the same Redis"],
    ["SECURITY.md", "Force release is open to every client"],
    ["docs/safety.md", "What no lock can promise, on any backend"],
  ],
  "where to read on, on pages that differ from backend to backend": [
    ["README.md", "the rights that each store's user needs"],
    ["docs/concepts.md", "Each backend's page says what it promises when servers crash"],
    ["docs/concepts.md", "Each backend's page says what else"],
  ],
  "this very rule": [["docs/testing.md", "A sentence that speaks of every backend, store, client or library"]],
  "what the driver can be asked to use; its campaigns are scripts": [
    ["src/lab/drive/connections.ts", "every library, every topology, each connection through a proxy"],
  ],
  "other libraries, which the benchmarks compare": [
    ["docs/benchmarks.md", "Default settings** of each library"],
    ["docs/benchmarks.md", "what each library does when something goes wrong"],
  ],
  "client processes of the lab or of a test program": [
    ["docs/lab.md", "Each client is a process of its own"],
    ["docs/lab.md", "Each client reaches the servers over a network of its own"],
    ["docs/lab.md", "a counter that every client reads"],
    ["docs/lab.md", "Every client writes to both"],
    ["docs/testing.md", "between each client and each server a proxy of its own"],
    ["src/lab/drive/cast.ts", "Their networks, one entry for each client"],
    ["src/lab/drive/store.ts", "a network of its own for every client"],
    ["src/lab/protected-counter.ts", "Every client writes to both"],
    ["src/lab/history.ts", "each client's holds, read from the same history"],
    ["src/lab/history.ts", "the fence of each client's current hold"],
    ["src/lab/history.ts", "Every client's holds, in the order in which they began"],
    ["src/lab/report/timeline.ts", "over all clients' lanes"],
    ["src/lab/soak/soak.ts", "from when all their clients run"],
    ["src/lab/stages/proxied-links.ts", "A network of its own for every client"],
    ["src/testing/programs/run.ts", "Breaks each client's backend"],
    ["src/testing/programs/stage.ts", "one process for each client"],
  ],
  "how the code is written, which the types and the conformance suite check": [
    ["src/backends/file/backend.ts", "a throw becomes a rejection, as from any other store"],
    ["src/backends/memory/backend.ts", "a throw becomes a rejection, as from any other store"],
    ["src/backends/memory/store.ts", "the reference for every other store"],
  ],
};

/** Prose, or the comments of code, in one line. */
function words(path: string): string {
  const text = readFileSync(join(ROOT, path), "utf8");
  const comments = [...text.matchAll(/\/\*\*[\s\S]*?\*\/|\/\/.*$|--.*$/gmu)].map(([comment]) => comment).join("\n");
  return (path.endsWith(".md") ? text : comments)
    .replaceAll(/^\s*(?:\/\*\*|\*\/|\*|\/\/|--|#+)/gmu, " ")
    .replaceAll(/\s+/gu, " ");
}

function files(): readonly string[] {
  const inside = ["docs", "src"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => /\.(?:md|ts|lua)$/u.test(path))
      // Decisions tell how it was; generated files say what their sources say.
      .filter((path) => !path.includes("generated/") && !path.startsWith("decisions/"))
      .map((path) => `${folder}/${path}`),
  );
  return ["README.md", "CONTRIBUTING.md", "SECURITY.md", ...inside];
}

const rows: readonly (readonly [path: string, words: string])[] = [
  ...PROMISES.map(([path, text]) => [path, text] as const),
  ...Object.values(OTHERS).flat(),
];

/** What is said of all of them, and in no row. */
function withoutRow(path: string, text: string): readonly string[] {
  const known = rows
    .filter(([where]) => where === path)
    .flatMap(([, said]) => {
      const at: (readonly [from: number, to: number])[] = [];
      for (let from = text.indexOf(said); from >= 0; from = text.indexOf(said, from + 1))
        at.push([from, from + said.length]);
      return at;
    });
  return [...text.matchAll(SAYS)]
    .filter(({ 0: said, index }) => !known.some(([from, to]) => index >= from && index + said.length <= to))
    .map(({ 0: said, index }) => `${path}: … ${text.slice(Math.max(0, index - 60), index + said.length + 60)} …`);
}

test("every sentence about every backend or every client has its row", () => {
  expect(files().flatMap((path) => withoutRow(path, words(path)))).toEqual([]);
});

test("a new sentence without a row is seen", () => {
  for (const sentence of ["It works on every backend.", "Whichever\nclient library you use", "as in all stores"]) {
    expect(withoutRow("docs/new.md", sentence.replaceAll(/\s+/gu, " "))).toHaveLength(1);
  }
  expect(withoutRow("docs/new.md", "It works on file and redis.")).toEqual([]);
});

test("every row is about a sentence that is there", () => {
  const stale = rows.filter(([path, said]) => !existsSync(join(ROOT, path)) || !words(path).includes(said));
  expect(stale).toEqual([]);
});

test("every promise is shown by tests that are there", () => {
  const shown = PROMISES.flatMap(([, , ...all]) => all);
  const missing = shown.filter(([file, text]) => !readFileSync(join(ROOT, file), "utf8").includes(text));
  expect(missing).toEqual([]);
  expect(PROMISES.filter(([, , ...all]) => all.length === 0)).toEqual([]);
});

test("every backend has its row in the matrices: a new one cannot be forgotten", () => {
  const backends = new Set<string>(BACKEND_NAMES);
  expect(backends.size).toBeGreaterThan(3);
  const covered = CONFORMANCE.map(([file]) => file).join(" ");
  expect([...backends].filter((backend) => !covered.includes(`/${backend}.test.ts`))).toEqual([]);
  const steps = readFileSync(join(ROOT, STEPS[0]), "utf8").replaceAll('"', "");
  const stores: Readonly<Record<string, string>> = { quorum: "redlock" };
  expect([...backends].filter((backend) => !steps.includes(`${stores[backend] ?? backend}: {`))).toEqual([]);
});
