/**
 * One thing has one word, and it is a word that an international reader knows. This list keeps words out that were replaced, and
 * phrases that are hard to read. Documentation of decisions and the change log tell how it was, and are not read here.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "./dist.ts";

interface Rule {
  readonly banned: RegExp;
  readonly say: string;
  /** Places where the word means something else, each with what it means there. */
  readonly allowed?: Readonly<Record<string, string>>;
}

/** Names of things: in identifiers, comments, texts and documentation. */
const NAMES: readonly Rule[] = [
  {
    banned: /\bowners?\b|Owner\b|OWNER\b/,
    say: "holder (of a lease), user (of a file)",
    allowed: {
      "src/fence/": "the owner of a Postgres table, as Postgres calls it",
      "test/fence/": "the owner of a Postgres table, as Postgres calls it",
      "test/security/": "the owner of a file or of a table, as the system calls it",
      "SECURITY.md": "the owner of a file, as the system calls it",
      "docs/fencing.md": "the owner of a Postgres table, as Postgres calls it",
      "src/backends/zookeeper/": "a field of ZooKeeper's protocol: the session that owns a node",
      "test/backends/zookeeper/": "a field of ZooKeeper's protocol: the session that owns a node",
      "test/backends/file/": "the owner of a file, as the system calls it",
      "src/backends/file/": "the owner of a file, as the system calls it",
      "src/drop-ins/verrou/": "the text by which Verrou knows who has a lock",
      "test/drop-ins/verrou/": "the text by which Verrou knows who has a lock",
      "docs/verrou.md": "the text by which Verrou knows who has a lock",
    },
  },
  { banned: /\bdesks?\b|Desk\b/, say: "engine" },
  { banned: /turnstile/i, say: "local queue" },
  { banned: /cohort/i, say: "renewal group" },
  { banned: /\bseekers?\b|Seeker\b/, say: "acquisition" },
  {
    banned: /\bkeepers?\b|Keeper\b/,
    say: "watchdog",
    allowed: {
      "src/cli/": "the process whose life a lease of `acquire --pid` lasts, as the manual calls it",
      "test/cli/": "the process whose life a lease of `acquire --pid` lasts, as the manual calls it",
      "*ZooKeeper": "the name of a product",
    },
  },
  { banned: /\bfates?\b|Fate\b/, say: "liveness" },
  { banned: /\bstandings?\b(?! still)|Standing\b/, say: "state, relation" },
  { banned: /\bsurveys?\b|Survey\b|\bsights?\b|Sight\b/, say: "query" },
  { banned: /\blitter\b|Litter\b/, say: "leftovers, pending deletes" },
  { banned: /\bfitness\b|Fitness\b/, say: "server checks" },
  { banned: /\blendable\b|\bsurroundings?\b/i, say: "reusable; the parts by name" },
  { banned: /\bwallskew\b/i, say: "wall clock" },
  {
    banned: /\bfencing tokens?\b/i,
    say: "fence",
    allowed: { "docs/glossary.md": "what other libraries call it" },
  },
  { banned: /\bbroken? by force\b/i, say: "ended by force" },
  { banned: /\bvouch\w*/i, say: "end the quarantine, confirm" },
];

/** Identifiers only: in prose these are ordinary words. */
const IDENTIFIERS: readonly Rule[] = [
  { banned: /\b[Tt]old\b/, say: "what it is: losses, order, reported" },
  {
    banned: /\bTickets?\b|\btickets?\b/,
    say: "request",
    allowed: {
      "src/backends/redis/": "the `ticket` option: a waiter's place in the store",
      "test/backends/redis/": "the `ticket` option: a waiter's place in the store",
      "src/backends/postgres/": "the `ticket` option: a waiter's place in the store",
      "test/backends/postgres/": "the `ticket` option: a waiter's place in the store",
      "src/backends/file/": "a waiter's place in the store, a file of its own",
      "test/backends/file/": "a waiter's place in the store, a file of its own",
    },
  },
  {
    banned: /\b[Mm]oments?\b|Moments?\b/,
    say: "instant, clock",
    allowed: { "src/lab/report/": "a line of the report: what people want to read" },
  },
];

/** Phrases that need a second reading: in comments, messages and names of tests. */
const PHRASES: readonly Rule[] = [
  { banned: /\bwhoever\b/i, say: "the process, the caller, the next claim" },
  { banned: /\bsomebody\b/i, say: "another process, another claim" },
  { banned: /\b(?:any|every)body\b/i, say: "any process, all" },
  { banned: /\bnobody\b/i, say: "no process, no claim; unknown" },
  { banned: /\b(?:un|fore)?told\b/i, say: "reported, learned" },
  { banned: /\bagain and again\b/i, say: "repeatedly, until" },
  { banned: /\bby a hair\b|\bblue moon\b|\bin vain\b/i, say: "the number; rarely; without success" },
  { banned: /\b(?:a|one) look\b/i, say: "a try, a check" },
  { banned: /\b(?:for|of|in|an) office\b/i, say: "leader, while elected, campaign" },
  { banned: /\bbelieves? to\b/i, say: "believes that it" },
];

interface Source {
  readonly path: string;
  readonly text: string;
}

/** Tests that list the words that are banned. */
const LISTS: readonly string[] = ["test/words.test.ts", "test/reading.test.ts"];

function filesIn(folder: string, ending: RegExp): readonly Source[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path) && !/node_modules|generated\/|decisions\//.test(path))
    .map((path) => `${folder}/${path}`)
    .filter((path) => !LISTS.includes(path))
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));
}

const code: readonly Source[] = [
  ...filesIn("src", /\.(?:ts|lua|sql)$/),
  ...filesIn("test", /\.(?:ts|mjs)$/),
  ...filesIn("scripts", /\.mjs$/),
  ...filesIn("examples", /\.(?:mjs|ts)$/),
  ...filesIn("bench", /\.mjs$/),
  ...filesIn("judges", /\.mjs$/),
];
const documents: readonly Source[] = [
  ...filesIn("docs", /\.md$/),
  ...["README.md", "CONTRIBUTING.md", "SECURITY.md", "package.json"].map((path) => ({
    path,
    text: readFileSync(join(ROOT, path), "utf8"),
  })),
];

const COMMENT_OR_TEXT =
  /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$|(?<=^|\s)--\s.*$|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/gm;

/** What people read. Inside of a template, the code too: it is short. */
const prose = (text: string): string => [...text.matchAll(COMMENT_OR_TEXT)].map(([part]) => part).join("\n");
const identifiers = (text: string): string => text.replaceAll(COMMENT_OR_TEXT, " ");

function offences({ path, text }: Source, rules: readonly Rule[]): readonly string[] {
  return rules.flatMap(({ banned, say, allowed = {} }) => {
    const exempt = Object.keys(allowed);
    if (exempt.some((place) => path.startsWith(place))) return [];
    const products = exempt.filter((place) => place.startsWith("*")).map((place) => place.slice(1));
    // Pages of decisions keep the names that they were given.
    const linked = text.replaceAll(/decisions\/[\w-]+\.md/g, "");
    const seen = products.reduce((rest, product) => rest.replaceAll(product, ""), linked);
    const found = [...seen.matchAll(new RegExp(banned, `${banned.flags}g`))];
    return [...new Set(found.map(([word]) => `${path}: "${word}"; say: ${say}`))];
  });
}

describe("words", () => {
  test("that were replaced are gone, from code, comments, messages and documentation", () => {
    expect([...code, ...documents].flatMap((source) => offences(source, NAMES))).toEqual([]);
  });

  test("that name something else are no identifiers", () => {
    expect(code.flatMap(({ path, text }) => offences({ path, text: identifiers(text) }, IDENTIFIERS))).toEqual([]);
  });

  test("that are hard to read are in no comment, message or name of a test", () => {
    expect(code.flatMap(({ path, text }) => offences({ path, text: prose(text) }, PHRASES))).toEqual([]);
  });

  test("a banned word is noticed, and code is not taken for prose", () => {
    const path = "src/new/file.ts";
    const source = 'const owner = 1; // whoever comes\nthrow new Error("somebody else");\nconst nobody = told;';
    expect(offences({ path, text: source }, NAMES)).toHaveLength(1);
    expect(offences({ path, text: prose(source) }, PHRASES)).toHaveLength(2);
    expect(offences({ path, text: identifiers(source) }, IDENTIFIERS)).toHaveLength(1);
    expect(offences({ path: "src/backends/zookeeper/x.ts", text: source }, NAMES)).toEqual([]);
    expect(offences({ path, text: "import of ZooKeeper" }, NAMES)).toEqual([]);
  });
});
