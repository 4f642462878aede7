/**
 * Numbers in the documentation are those of the code. Every row of an options table is held against the option's default in the
 * source, and every number with a unit against the constant it states. A number that is no constant is listed with what it is.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { BACKEND_NAMES } from "../src/backends/all.ts";
import { type Duration, toMs } from "../src/contract/duration.ts";
import { ROOT } from "./dist.ts";
import { LIMIT } from "../src/backends/redis/wire.ts";

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

function sourcesIn(folder: string): string {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => /\.(?:ts|lua|mjs)$/.test(path) && !path.includes("generated/"))
    .map((path) => read(join(folder, path)))
    .join("\n");
}

/** The value of `const NAME = …`, or of a field `NAME.field`, in a file or folder; it may use other constants of that place. */
function constant(place: string, name: string): number {
  const text = /\.\w+$/.test(place) ? read(place) : sourcesIn(place);
  const [object = "", field] = name.split(".");
  const pattern =
    field === undefined
      ? String.raw`(?:const|local) ${object}(?:: number)? = ([^;\n]+)`
      : String.raw`const ${object} = \{[^}]*?\b${field}: ([^,\n]+)`;
  const found = [...text.matchAll(new RegExp(pattern, "g"))];
  if (found.length !== 1) throw new Error(`expected one constant ${name} in ${place}, found ${found.length}`);
  const value = found[0]![1]!.replaceAll(/\b[A-Z][A-Z0-9_]+\b(?:\.\w+)?/g, (other) => String(constant(place, other)));
  if (!/^[\w\s.*/+()-]+$/.test(value)) throw new Error(`${name} in ${place} is not a number: ${value}`);
  return Number(runInNewContext(value));
}

/** How much earlier than the store a lease is no longer trusted. */
function driftMs(ttlMs: number): number {
  const [, formula = ""] =
    /function driftMs\(\w+: number\): number \{\s*return ([^;]+);/.exec(sourcesIn("src/contract")) ?? [];
  return Number(runInNewContext(formula, { ttlMs }));
}

/** `const DEFAULTS = { … }` of a file, as text for each option. */
function defaultsIn(text: string): Readonly<Record<string, string>> {
  const [, body = ""] = /const DEFAULTS = \{([^}]*)\}/.exec(text) ?? [];
  return Object.fromEntries([...body.matchAll(/(\w+): ([^,\n]+)/g)].map(([, name, value]) => [name, value!.trim()]));
}

const defaultOf = (file: string, option: string): number => {
  const text = defaultsIn(read(file))[option];
  if (text === undefined) throw new Error(`${file} has no default of ${option}`);
  const value: unknown = JSON.parse(text);
  return typeof value === "string" ? toMs(value as Duration, option) : Number(value);
};

describe("options", () => {
  interface Row {
    readonly option: string;
    /** `undefined`: none. */
    readonly stated: string | undefined;
  }

  /** The rows of every table whose head is "option, default". */
  function optionRows(markdown: string): readonly Row[] {
    const tables = [...markdown.matchAll(/^\| *option *\| *default *\|.*\n\|[-| :]+\n((?:\|.*\n)+)/gim)];
    return tables.flatMap(([, body]) =>
      (body as string)
        .trimEnd()
        .split("\n")
        .map((line) => {
          const [, option = "", stated = ""] = line.split("|").map((cell) => cell.trim());
          return { option: option.replaceAll("`", ""), stated: /^`(.*)`$/.exec(stated)?.[1] };
        }),
    );
  }

  /** What the sources say that the option is where it was not given. */
  function inSource(option: string, defaults: Readonly<Record<string, string>>, text: string): string | undefined {
    const fallback = new RegExp(String.raw`\b${option}(?:\)? \?\?| =) ("[^"\n]*"|true|false|\d[\d_]*|\{\})`).exec(
      text,
    )?.[1];
    return defaults[option] ?? fallback;
  }

  function wrongRows(
    rows: readonly Row[],
    defaults: Readonly<Record<string, string>>,
    text: string,
  ): readonly string[] {
    // An absent flag is false, an absent list or note is empty.
    const empty = new Set([undefined, "false", "{}", '""']);
    return rows
      .filter(({ stated, option }) => {
        const actual = inSource(option, defaults, text);
        return stated !== actual && !(empty.has(stated) && empty.has(actual));
      })
      .map(({ option, stated }) => `${option}: stated ${stated}, in the code ${inSource(option, defaults, text)}`);
  }

  /** Names of an interface's properties that users may set. */
  function optionsOf(text: string): readonly string[] {
    const [, body = ""] = /export interface \w+Options \{\n([\s\S]*?)\n\}/.exec(text) ?? [];
    const parts = body.split(/;\n/);
    const own = parts.filter((part) => !/@internal|For tests/.test(part));
    return own.map((part) => /readonly (\w+)\??:/.exec(part)?.[1]).filter((name) => name !== undefined);
  }

  const PAGES = BACKEND_NAMES.filter((name) => name !== "memory");

  // Values that are worked out when the backend is opened, or belong to the members.
  const COMPUTED: Readonly<Record<string, readonly string[]>> = { file: ["dir", "clock"], quorum: ["labels"] };

  test.each(PAGES)("of %s: the table has every option, with the default that the code has", (name) => {
    const source = read(`src/backends/${name}/options.ts`);
    const rows = optionRows(read(`docs/backends/${name}.md`));
    expect(rows.length).toBeGreaterThan(0);
    const known = new Set(rows.map(({ option }) => option));
    expect(optionsOf(source).filter((option) => !known.has(option))).toEqual([]);
    const checked = rows.filter(({ option }) => COMPUTED[name]?.includes(option) !== true);
    expect(wrongRows(checked, defaultsIn(source), sourcesIn(`src/backends/${name}`))).toEqual([]);
  });

  test.each(PAGES)("of %s: the comments state the same defaults as the table", (name) => {
    const source = read(`src/backends/${name}/options.ts`);
    const rows = new Map(optionRows(read(`docs/backends/${name}.md`)).map(({ option, stated }) => [option, stated]));
    const comments = [...source.matchAll(/@default ("[^"]*"|\d[\d_]*|true|false)[^;]*?readonly (\w+)\?/g)];
    expect(comments.length).toBeGreaterThan(0);
    const empty = new Set([undefined, "false", '""']);
    const wrong = comments.filter(([, stated, option]) => {
      const inTable = rows.get(option as string);
      return rows.has(option as string) && inTable !== stated && !(empty.has(inTable) && empty.has(stated));
    });
    expect(wrong.map(([, stated, option]) => `${option} ${stated}`)).toEqual([]);
  });

  test("of an acquire: the README's table has the defaults of the code", () => {
    const source = read("src/core/options.ts");
    const rows = optionRows(read("README.md"));
    expect(rows.length).toBeGreaterThan(8);
    expect(wrongRows(rows, defaultsIn(source), "")).toEqual([]);
    expect(Object.keys(defaultsIn(source)).filter((name) => !rows.some(({ option }) => option === name))).toEqual([]);
  });

  test("of redis: the nested default", () => {
    const [, wait] = /DEFAULT_WAIT = ("\w+")/.exec(read("src/backends/redis/options.ts")) ?? [];
    expect(read("docs/backends/redis.md")).toContain(`\`{ replicas, wait: ${wait} }\``);
  });

  test("a changed number is seen, in the table and in the code", () => {
    const page = read("docs/backends/redis.md");
    const defaults = defaultsIn(read("src/backends/redis/options.ts"));
    expect(wrongRows(optionRows(page), defaults, "")).toEqual([]);
    const changed = page.replace(/^(\| `ticket` +\| `)"10s"/m, '$1"11s"');
    expect(changed).not.toBe(page);
    expect(wrongRows(optionRows(changed), defaults, "")).toEqual(['ticket: stated "11s", in the code "10s"']);
    expect(wrongRows(optionRows(page), { ...defaults, run: "300" }, "")).toEqual(["run: stated 256, in the code 300"]);
  });
});

const REDIS = "src/backends/redis";
const ZOOKEEPER = "src/backends/zookeeper";
const FILE = "src/backends/file";
const RUN = "src/cli/run/plan.ts";

const core = (option: string): number => defaultOf("src/core/options.ts", option);
const redis = (option: string): number => defaultOf(`${REDIS}/options.ts`, option);
const quorum = (option: string): number => defaultOf("src/backends/quorum/options.ts", option);
const zookeeper = (option: string): number => defaultOf(`${ZOOKEEPER}/options.ts`, option);

/** A sentence with numbers, each `{}`, and what each is in the code, in the unit of the sentence. */
const SENTENCES: readonly (readonly [page: string, sentence: string, ...numbers: readonly number[]])[] = [
  ["README.md", "`tryAcquire()` gives it up to {} s", constant("src/core", "TRY_MAX_MS") / 1000],
  ["docs/concepts.md", "The default, {} s, suits most work", core("ttl") / 1000],
  ["docs/concepts.md", "({} % of the ttl and {} ms)", (driftMs(100_000) - driftMs(0)) / 1000, driftMs(0)],
  ["docs/concepts.md", "JSON of at most {} KiB", constant("src/core", "VALUE_BYTES_MAX") / 1024],
  ["docs/concepts.md", "gets no answer for {} s (or", constant("src/core", "WANTED_SILENCE_MS") / 1000],
  ["docs/cli.md", "how long the lock outlives a dead holder ({}s)", constant(RUN, "DEFAULT_TTL_MS") / 1000],
  ["docs/cli.md", "when the lease is about to end ({}s,", constant(RUN, "DEFAULT_GRACE_MS") / 1000],
  ["docs/cli.md", "ends after `--ttl` ({}m)", constant("src/cli/commands/acquire.ts", "DEFAULT_TTL_MS") / 60_000],
  ["docs/cli.md", "when its ticket ends, after {} s or its ttl", redis("ticket") / 1000],
  ["docs/cli.md", "when its session ends (`?session=`, {} s)", zookeeper("session") / 1000],
  ["docs/cli.md", "at most its `maxTtl`, {} s unless", quorum("maxTtl") / 1000],
  ["docs/cli.md", "when its ticket ends, after {} s or its ttl", redis("ticket") / 1000],
  ["docs/cli.md", "when its session ends (`?session=`, {} s)", zookeeper("session") / 1000],
  [
    "docs/cli.md",
    "Holders are cut at {} characters, reasons of force releases at {}, metas at {} KiB",
    constant("src/contract", "HOLDER_MAX"),
    constant("src/contract", "REASON_MAX"),
    constant("src/contract", "META_BYTES_MAX") / 1024,
  ],
  [
    "docs/telemetry.md",
    "the first {} are kept apart, at {} characters each",
    constant("src/telemetry", "TEMPLATES_MAX"),
    constant("src/telemetry", "TEMPLATE_LENGTH_MAX"),
  ],
  ["docs/fencing.md", "after `idle` ({} s by default)", defaultOf("src/fence/postgres/check.ts", "idle") / 1000],
  ["docs/backends/file.md", "about every {} ms without", constant(FILE, "BARE_POLL_MS")],
  ["docs/backends/file.md", "the clock by more than {} ms", Math.ceil(constant(FILE, "AHEAD_MAX_US") / 1000)],
  [
    "docs/backends/file.md",
    "it waits {} ms before the first fence",
    Math.ceil(constant(FILE, "AHEAD_MAX_US") / 1000) + 1,
  ],
  ["docs/backends/file.md", "longer than {} characters become", constant(FILE, "READABLE_MAX")],
  ...["A ballot stands for {} fences", "for up to {} successive holders"].map(
    (sentence) => ["docs/backends/quorum.md", sentence, constant("src/backends/quorum/ballot.ts", "RUN")] as const,
  ),
  ["docs/backends/quorum.md", "({} % + {} ms) remains", (driftMs(100_000) - driftMs(0)) / 1000, driftMs(0)],
  ["docs/backends/quorum.md", "takes {} seconds with the default settings", (quorum("maxTtl") * 1.1 + 1000) / 1000],
  ...["docs/backends/quorum.md", "docs/backends/redis.md"].map(
    (page) =>
      [
        page,
        page.endsWith("redis.md") ? "lives for {} days after its last use" : "the marker ({} days)",
        constant(`${REDIS}/lua`, "MARKER_MS") / 86_400_000,
      ] as const,
  ),
  ["docs/backends/redis.md", "in memory, for {} ms at most", constant("src/core", "TURN_MS")],
  ["docs/backends/redis.md", "({} s) has ended", redis("ticket") / 1000],
  ["docs/backends/redis.md", "`maxTtl + maxLag` ({} s by default)", (redis("maxTtl") + redis("maxLag")) / 1000],
  ["docs/backends/redis.md", "{} ms or {} holders before", constant("src/core", "TURN_MS"), redis("run")],
  ["docs/backends/redis.md", "{} places of the queue in a call and {} claims in a message", LIMIT.portion, LIMIT.news],
  ["docs/backends/redis.md", "each with its own answer: {} to a call", constant(REDIS, "PORTION")],
  [
    "docs/backends/redis.md",
    "by the first {} of its id's {} characters",
    LIMIT.shown,
    constant("src/contract", "ID_LENGTH"),
  ],
  [
    "docs/backends/redis.md",
    "read up to {} characters and {} grants, or {} claims with other news; hints to a quorum's waiters wake them {} times in a row and then every {} ms",
    LIMIT.message,
    LIMIT.grants,
    LIMIT.news,
    constant(REDIS, "WAKES_BURST"),
    constant(REDIS, "WAKES_PACE_MS"),
  ],
  [
    "docs/backends/redis.md",
    "look at {} kB of text, and wake a quorum's waiters up to {} times a second",
    Math.floor(LIMIT.message / 1000),
    1000 / constant(REDIS, "WAKES_PACE_MS"),
  ],
  ["docs/backends/redis.md", "({} before any claim waits there)", constant(REDIS, "CALM_RUN")],
  ["docs/backends/redis.md", "its `min-replicas-max-lag` and {} s", constant(REDIS, "LAG_MARGIN_MS") / 1000],
  [
    "docs/backends/redis.md",
    "closed, but Redis did not answer within {} s",
    constant(`${REDIS}/local-claims.ts`, "CLOSE_MS") / 1000,
  ],
  [
    "docs/backends/postgres.md",
    "waiters then ask every {} to {} ms",
    constant("src/backends/postgres", "POLL_FIRST_MS"),
    constant("src/backends/postgres", "POLL_MOST_MS"),
  ],
  [
    "docs/backends/postgres.md",
    "a holder that reads `lease.wanted`, every {} ms",
    constant("src/backends/postgres/wanted-news.ts", "PACE_MS"),
  ],
  ["docs/backends/shedlock.md", "asks again every {} ms", constant("src/backends/shedlock", "POLL_MS")],
  [
    "docs/backends/redis-plain.md",
    "asked for every {} s or so",
    constant("src/backends/redis-plain", "SAFETY_MS") / 1000,
  ],
  [
    "docs/backends/redis-plain.md",
    "without them from every {} ms to every {} ms",
    constant("src/backends/redis-plain", "POLL_MIN_MS"),
    constant("src/backends/redis-plain", "POLL_MAX_MS"),
  ],
  [
    "docs/backends/redisson.md",
    "(`watchdog`, by default {} s)",
    defaultOf("src/backends/redisson/options.ts", "watchdog") / 1000,
  ],
  ["docs/backends/redisson.md", "asked for every {} s or so", constant("src/backends/redisson", "SAFETY_MS") / 1000],
  [
    "docs/backends/redisson.md",
    "is confirmed from every {} ms to every {} ms",
    constant("src/backends/redisson", "POLL_MIN_MS"),
    constant("src/backends/redisson", "POLL_MAX_MS"),
  ],
  ["docs/backends/shedlock.md", "less than {} characters", constant("src/backends/shedlock", "LOCKED_BY_MAX")],
  ["docs/backends/zookeeper.md", "Frames above {} MB", constant(ZOOKEEPER, "FRAME_MAX_BYTES") / 2 ** 20],
  ["docs/backends/zookeeper.md", "A list or a node above {} MB", constant(ZOOKEEPER, "FRAME_MAX_BYTES") / 2 ** 20],
  ["docs/backends/zookeeper.md", "(`session`, by default {} s)", zookeeper("session") / 1000],
  [
    "docs/backends/zookeeper.md",
    "with {} s an event loop may be blocked for {}",
    zookeeper("session") / 1000,
    (zookeeper("session") / 1000) * (1 - constant(ZOOKEEPER, "MARGIN")),
  ],
  ["docs/lab.md", "looks at the store itself every {} ms", constant("src/lab/play.ts", "LOOK_MS")],
  ["docs/lab.md", "tries every {} ms", constant("bench/lab/other-libraries.mjs", "RETRY_MS")],
  ["docs/lab.md", "must hold a lock again within {} s", constant("src/lab/soak/faults.ts", "LIVELY_MS") / 1000],
  ["docs/lab.md", "Locks get new names every {} s", constant("src/lab/soak/soak.ts", "EPOCH_MS") / 1000],
];

/** Numbers with a unit that are no constant of ours, and what they are. */
const OTHERS: Readonly<Record<string, readonly (readonly [page: string, words: string])[]>> = {
  "measured: test/readme.test.ts holds them to their pages": [
    ["README.md", "ran 28.2 times as many locked sections"],
    ["README.md", "costs 1.16 times the client's CPU"],
    ["README.md", "replaced within 5.54 ms"],
  ],
  "of a pattern in Lua": [["docs/backends/redis-plain.md", "(16 to 128 characters without spaces)"]],
  "of ShedLock's own": [["docs/backends/shedlock.md", "Names of more than 64 characters"]],
  "of ZooKeeper's own": [
    ["docs/backends/zookeeper.md", "(4 s to 40 s with the defaults)"],
    ["docs/backends/zookeeper.md", "(Java's clients refuse 1 MB)"],
    ["docs/backends/zookeeper.md", "its longest session (40 s by default)"],
  ],
};

/** Prose and tables in one line, without code: that is examples, and values that the options' test reads. */
function prose(markdown: string): string {
  return markdown
    .replaceAll(/^```[\s\S]*?^```/gm, " ")
    .replaceAll(/`[^`]*`/g, (code) => (/\d/.test(code) ? "`…`" : code))
    .replaceAll(/\s+/g, " ");
}

const NUMBER =
  /\b\d[\d,.]*\s?(?:ms|s|m|seconds|minutes|kB|KiB|MB|days|hours|characters|grants|fences|holders|times|to a call)\b/g;
const PAGES = ["README.md", "docs/concepts.md", "docs/cli.md", "docs/fencing.md", "docs/lab.md"].concat(
  BACKEND_NAMES.filter((name) => name !== "memory").map((name) => `docs/backends/${name}.md`),
);

const stated = (sentence: string, numbers: readonly number[]): string =>
  numbers.reduce<string>((text, number) => text.replace("{}", number.toLocaleString("en-US")), sentence);

/** Numbers of a page that no sentence covers. */
function uncovered(page: string, text: string): readonly string[] {
  const known = [
    ...SENTENCES.filter(([where]) => where === page).map(([, sentence, ...numbers]) => stated(sentence, numbers)),
    ...Object.values(OTHERS).flatMap((all) => all.filter(([where]) => where === page).map(([, words]) => words)),
  ].flatMap((words) => {
    const at = text.indexOf(words);
    return at < 0 ? [] : [[at, at + words.length] as const];
  });
  return [...text.matchAll(NUMBER)]
    .filter(({ 0: number, index }) => !known.some(([from, to]) => index >= from && index + number.length <= to))
    .map(({ 0: number, index }) => `${page}: … ${text.slice(Math.max(0, index - 50), index + number.length + 30)} …`);
}

describe("sentences", () => {
  test("state the numbers that the code has", () => {
    const pages = new Map(SENTENCES.map(([page]) => [page, prose(read(page))]));
    const wrong = SENTENCES.map(([page, sentence, ...numbers]) => [page, stated(sentence, numbers)] as const).filter(
      ([page, words]) => pages.get(page)?.includes(words) !== true,
    );
    expect(wrong).toEqual([]);
  });

  test.each(PAGES)("%s has no number that nothing holds to the code", (page) => {
    expect(uncovered(page, prose(read(page)))).toEqual([]);
  });

  test("a changed number is seen", () => {
    const page = "docs/backends/redis.md";
    const text = prose(read(page));
    expect(uncovered(page, text.replace("500 to a call", "256 to a call"))).toHaveLength(1);
    expect(uncovered(page, `${text} It waits for 17 s.`)).toHaveLength(1);
  });

  test("every exception is about words that are there", () => {
    const stale = Object.values(OTHERS)
      .flat()
      .filter(([page, words]) => !prose(read(page)).includes(words));
    expect(stale).toEqual([]);
  });
});
