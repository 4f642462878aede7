/** Style that can be checked is checked: import directions, exports and files, lengths, banned words. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { BACKEND_NAMES } from "../src/backends/all.ts";

const root = join(import.meta.dirname, "..");
const LINES_MAX = 300;

interface Source {
  readonly path: string;
  readonly text: string;
}

interface Planted {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly tests: readonly string[];
}

function sources(folder: string, ending: RegExp): Source[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path) && !path.includes("node_modules") && !path.includes("generated/"))
    .map((path) => join(folder, path))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

/** Code without comments and texts, so that only what runs is judged. */
function code(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/(^|\s)\/\/.*$/gm, "")
    .replaceAll(/"(?:[^"\\\n]|\\.)*"/g, '""')
    .replaceAll(/`(?:[^`\\]|\\.)*`/g, "``")
    .replaceAll("NodeJS.Timeout", "");
}

const src = sources("src", /\.ts$/);
const tests = sources("test", /\.ts$/);

/** The room that a source file is in: a folder of src/, each backend by itself, or one of the few files at the top. */
function room(path: string): string {
  const [first, second, third] = relative("src", path).split("/");
  if (second === undefined) return path;
  return first === "backends" && third !== undefined ? `backends/${second}` : (first as string);
}

/** Types too: a reader follows them as well. */
function imports(source: Source): string[] {
  const found = source.text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, specifier]) => join(dirname(source.path), specifier!));
}

function backendFolders(): readonly string[] {
  return readdirSync(join(root, "src/backends"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** The jobs of a backend, each a file of that name; and, where a backend has watch(), one of two for how a claim waits. */
const JOBS = ["index", "open", "options", "backend", "renewals", "query", "force-release", "errors"];
const WAITING = ["waiting", "release-hints"];

/** Jobs that a backend does not have, each with the reason. A new backend has them all. */
const ABSENT_JOBS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  memory: {
    options: "it has those of its store, which are there",
    renewals: "nothing is sent: a renewal is one step of the store",
    query: "nothing is sent: a query is one step of the store",
    errors: "nothing fails but the use of a closed backend",
  },
  zookeeper: { waiting: "ZooKeeper's own watches wake a claim: they are part of each recipe" },
};

/** What these jobs were called before, or are called elsewhere. */
const OTHER_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^(?:config|settings|check)$/, "options"],
  [/^(?:renewal|renew|keepalive|retime)$/, "renewals"],
  [/^(?:inspect|peek|list|state|snapshot)$/, "query"],
  [/^(?:force|forced|break|steal)$/, "force-release"],
  [/^(?:error|faults?|failures?|troubles?)$/, "errors"],
  [/^(?:wait|watch|news|notify|hints)$/, "waiting or release-hints"],
];

function jobFaults(
  name: string,
  files: readonly string[],
  watches: boolean,
  absent: Readonly<Record<string, string>>,
): string[] {
  const folder = `src/backends/${name}`;
  const has = (job: string): boolean => files.includes(`${job}.ts`);
  const lacksWaiting = watches && !WAITING.some(has) && absent["waiting"] === undefined;
  const missing = JOBS.filter((job) => !has(job) && absent[job] === undefined);
  const named = files.flatMap((file) => {
    const other = OTHER_NAMES.find(([pattern]) => pattern.test(file.replace(/\.ts$/, "")));
    return other === undefined ? [] : [`${folder}/${file}: the name of this job is ${other[1]}`];
  });
  return [
    ...missing.map((job) => `${folder} has no ${job}.ts`),
    ...(lacksWaiting ? [`${folder} has no ${WAITING.join(".ts or ")}.ts`] : []),
    ...Object.keys(absent).flatMap((job) => (has(job) ? [`${folder} has ${job}.ts after all`] : [])),
    ...named,
  ];
}

/** Which rooms have a door to which, from the outside inwards. `*` stands for any backend. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  "src/index.ts": ["src/connect.ts", "core", "contract"],
  "src/connect.ts": ["backends", "core", "contract"],
  backends: ["backends/*", "contract"],
  core: ["contract"],
  fence: ["contract"],
  adapters: ["src/connect.ts", "core", "contract"],
  "drop-ins": ["backends", "backends/*", "core", "contract"],
  telemetry: ["contract"],
  console: ["telemetry", "core", "contract"],
  testing: ["core", "backends/memory", "contract"],
  lab: ["src/index.ts", "src/connect.ts", "testing", "fence", "backends", "backends/*", "core", "contract"],
  cli: ["src/index.ts", "src/connect.ts", "console", "lab", "fence", "backends", "backends/*", "core", "contract"],
};

/** Doors for one file, each with its reason. */
const EXCEPTIONS: readonly (readonly [from: string, to: string])[] = [
  // redlock:// names Redis servers: the Redis backend opens the members.
  ["src/backends/quorum/open.ts", "src/backends/redis/open.ts"],
  ["src/backends/quorum/open.ts", "src/backends/redis-plain/open.ts"],
  // The simulation judges late messages with the code that Redis uses, and not with a copy of its rule.
  ["src/testing/simulation/network.ts", "src/backends/redis/waiting.ts"],
];

/** A foreign layout is a backend of its own, and shares the connection of the store in which it lies. */
const FOREIGN_LAYOUTS: Readonly<Record<string, string>> = {
  "backends/shedlock": "backends/postgres",
  "backends/redis-plain": "backends/redis",
  "backends/redisson": "backends/redis",
};

function isOpen(from: string, to: string): boolean {
  const [here, there] = [room(from), room(to)];
  if (here === there || FOREIGN_LAYOUTS[here] === there || EXCEPTIONS.some(([a, b]) => a === from && b === to))
    return true;
  const doors = here.startsWith("backends/") ? ["contract"] : (DOORS[here] ?? []);
  return doors.some((door) => door === there || (door === "backends/*" && there.startsWith("backends/")));
}

/** Files that import each other, however far around, as one list for each circle. */
function circles(): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const path: string[] = [];
  const found: string[][] = [];
  const edges = new Map(src.map((source) => [source.path, imports(source)]));
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    path.push(file);
    for (const target of edges.get(file) ?? []) {
      if (!edges.has(target)) continue;
      if (!order.has(target)) visit(target);
      if (path.includes(target)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const circle = path.splice(path.indexOf(file));
    if (circle.length > 1) found.push(circle.toSorted());
  };
  for (const { path: file } of src) if (!order.has(file)) visit(file);
  return found;
}

describe("architecture", () => {
  test("doors are one-way: cli, lab → connect → backends → contract ← core", () => {
    const wrong = src.flatMap((source) =>
      imports(source)
        .filter((target) => !isOpen(source.path, target))
        .map((target) => `${source.path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test("a wrong door is seen", () => {
    expect(isOpen("src/contract/clock.ts", "src/core/hold.ts")).toBe(false);
    expect(isOpen("src/core/hold.ts", "src/backends/memory/index.ts")).toBe(false);
    expect(isOpen("src/backends/new/open.ts", "src/core/locks.ts")).toBe(false);
    expect(isOpen("src/backends/new/open.ts", "src/backends/redis/open.ts")).toBe(false);
    expect(isOpen("src/backends/postgres/open.ts", "src/backends/shedlock/open.ts")).toBe(false);
    expect(isOpen("src/backends/new/open.ts", "src/contract/backend.ts")).toBe(true);
    expect(isOpen("src/newroom/a.ts", "src/contract/backend.ts")).toBe(false);
  });

  test("no files import each other in a circle, types included", () => {
    expect(circles()).toEqual([]);
  });

  test("only index.ts and connect.ts are outside of the rooms", () => {
    const top = src.map(({ path }) => path).filter((path) => path.split("/").length === 2);
    expect(top.toSorted()).toEqual(["src/connect.ts", "src/index.ts"]);
  });

  test("the table of backends has a row for each folder", () => {
    expect(BACKEND_NAMES.toSorted()).toEqual(backendFolders().toSorted());
  });

  test("the same job has the same file name in every backend", () => {
    expect(
      backendFolders().flatMap((name) =>
        jobFaults(
          name,
          readdirSync(join(root, "src/backends", name)),
          /^ {2}(?:async )?watch\(/m.test(readFileSync(join(root, "src/backends", name, "backend.ts"), "utf8")),
          ABSENT_JOBS[name] ?? {},
        ),
      ),
    ).toEqual([]);
  });

  test("a job that is missing, or has another name, is seen", () => {
    const files = [...JOBS, "waiting"].map((job) => `${job}.ts`);
    expect(jobFaults("new", files, true, {})).toEqual([]);
    expect(jobFaults("new", [...files.filter((file) => file !== "query.ts"), "inspect.ts"], true, {})).toEqual([
      "src/backends/new has no query.ts",
      "src/backends/new/inspect.ts: the name of this job is query",
    ]);
    expect(jobFaults("new", files.slice(0, -1), true, {})).toEqual([
      "src/backends/new has no waiting.ts or release-hints.ts",
    ]);
    expect(jobFaults("new", files, true, { query: "no reason" })).toEqual(["src/backends/new has query.ts after all"]);
  });

  test("each planted bug is still a change of one place, and its tests are there", async () => {
    const { planted } = (await import(join(root, "scripts/mutate/planted.mjs"))) as { planted: readonly Planted[] };
    expect(planted.length).toBeGreaterThan(0);
    const wrong = planted.filter(
      ({ file, find, tests: named }) =>
        readFileSync(join(root, file), "utf8").split(find).length !== 2 ||
        named.some((path) => !existsSync(join(root, path))),
    );
    expect(wrong.map(({ name }) => name)).toEqual([]);
  });

  test("the core imports nothing but Node's own modules", () => {
    const wrong = src
      .filter(({ path }) => ["core", "contract"].includes(room(path)))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/from "([^".][^"]*)"/g)]
          .map(([, name]) => name!)
          .filter((name) => !name.startsWith("node:"))
          .map((name) => `${path}: ${name}`),
      );
    expect(wrong).toEqual([]);
  });

  test("every export has its source file, and every public index its export", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      exports: Record<string, { types: string; default: string } | string>;
    };
    const exported = Object.values(manifest.exports).flatMap((entry) => (typeof entry === "string" ? [] : [entry]));
    for (const { types, default: main } of exported) {
      expect(types).toBe(main.replace(/\.js$/, ".d.ts"));
      expect(existsSync(join(root, main.replace("./dist/", "src/").replace(/\.js$/, ".ts"))), main).toBe(true);
    }
    for (const entry of Object.values(manifest.exports))
      if (typeof entry === "object") expect(Object.keys(entry)[0]).toBe("types");
    const mains = new Set(exported.map(({ default: main }) => main.replace("./dist/", "src/").replace(/\.js$/, ".ts")));
    const indexes = src.map(({ path }) => path).filter((path) => path.endsWith("/index.ts"));
    expect(indexes.filter((path) => !mains.has(path))).toEqual([]);
  });

  test("nothing is a dependency of those who install the package", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<
      string,
      Record<string, unknown> | undefined
    >;
    expect(manifest["dependencies"] ?? {}).toEqual({});
    expect(
      Object.keys(manifest["peerDependencies"] ?? {}).filter(
        (name) => !(manifest["peerDependenciesMeta"]?.[name] as { optional?: boolean })?.optional,
      ),
    ).toEqual([]);
    expect(Object.keys(manifest["scripts"] ?? {}).filter((name) => /^(pre|post)?install$/.test(name))).toEqual([]);
  });
});

describe("files", () => {
  test(`no source file is longer than ${LINES_MAX} lines`, () => {
    const long = src
      .map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > LINES_MAX);
    expect(long).toEqual([]);
  });

  test("every source file says in its first lines what it is for", () => {
    const silent = src
      .filter(({ path, text }) => !path.endsWith("/index.ts") && !/^(#!.*\n)?(\/\*\*|\/\/)/.test(text))
      .map(({ path }) => path);
    expect(silent).toEqual([]);
  });

  test("no default exports, enums, namespaces, utils or helpers", () => {
    const wrong = src
      .filter(
        ({ path, text }) =>
          /^export default|^(export )?(const )?enum |^(export )?namespace /m.test(code(text)) ||
          /(^|\/)(utils?|helpers?|misc|common)(\.ts|\/)/.test(path),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});

describe("words", () => {
  test("nothing is left for later", () => {
    const open = src.filter(({ text }) => /\b(TODO|FIXME|XXX)\b|not implemented/i.test(text)).map(({ path }) => path);
    expect(open).toEqual([]);
  });

  test("the wall clock decides nothing: Date.now() is only where its reason is given", () => {
    // once.ts: when the work was done, for people. cron: slots are times of the day. bullmq: until when a job is delayed.
    // audit.ts: when an action was done, for people. drop-ins/redlock: Lock.expiration is a time of the wall clock, as in redlock.
    // otel/producer: between which times a sum was added up, as OpenTelemetry wants it.
    const allowed = [
      /^src\/contract\/clock\.ts$/,
      /^src\/core\/once\.ts$/,
      /^src\/console\/audit\.ts$/,
      /^src\/adapters\/(cron|bullmq)\//,
      /^src\/drop-ins\/redlock\//,
      /^src\/telemetry\/otel\/producer\.ts$/,
      /^src\/(lab|cli|testing|backends\/(file|quorum|zookeeper|etcd))\//,
    ];
    const wrong = src
      .filter(
        ({ path, text }) => /Date\.now\(\)|new Date\(/.test(code(text)) && !allowed.some((place) => place.test(path)),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("a wrong argument is an ArgumentError, which code knows by its code", () => {
    // A property that a lease of several locks does not have: no argument is wrong.
    const allowed = ["src/core/multi-lease.ts", "src/fence/http/refusal.ts"];
    const wrong = src
      .filter(
        ({ path, text }) =>
          /^src\/(contract|core|backends|fence)\//.test(path) &&
          !allowed.includes(path) &&
          /new TypeError\(/.test(code(text)),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("the core keeps to the glossary", () => {
    const banned = /\b(mutex|token|expiry|timeout|resource)\b/i;
    // The options of users are checked there, and `timeout` is one: how long to wait for an answer of the store.
    const options = ["src/core/options.ts", "src/core/api.ts"];
    const wrong = src
      .filter(
        ({ path, text }) =>
          ["core", "contract"].includes(room(path)) && !options.includes(path) && banned.test(code(text)),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("libraries do not print: console belongs to the cli and the lab", () => {
    const wrong = src
      .filter(({ path, text }) => !/^src\/(cli|lab)\//.test(path) && /\bconsole\./.test(code(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("no test is skipped, singled out, left to do, or tried again", () => {
    const wrong = tests
      .filter(
        ({ path, text }) =>
          !path.endsWith("tidy.test.ts") &&
          /\b(it|test|describe)\.(only|skip|skipIf|todo|fails)\b|retry: *[1-9]/.test(text),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("dice are the same in every run: a test that fails does so again", () => {
    const throwsDice = tests.filter(({ text }) => /\bfc\.(?:assert|check|sample)\(/.test(code(text)));
    expect(throwsDice.length).toBeGreaterThan(15);
    const wrong = throwsDice
      .filter(({ text }) => !text.includes('fixed-seed.ts"') && !/\bseed: (?:SEED|[\d_]+)\b/.test(text))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
