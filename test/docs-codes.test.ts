/**
 * Every code that a user can meet has a page, and every such page is about a code that there is: errors, process warnings, exit codes, and
 * the SQLSTATEs of the functions in Postgres. What reports the code links to its page.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EXIT } from "../src/cli/exit-codes.ts";
import { ArgumentError } from "../src/contract/argument-error.ts";
import { helpFor } from "../src/contract/help.ts";
import { warn } from "../src/contract/warning.ts";
import { FenceRejectedError } from "../src/fence/index.ts";
import { LockTimeoutError } from "../src/index.ts";
import { ROOT } from "./dist.ts";

/** Codes of others that our code looks at. */
const FOREIGN: readonly string[] = [
  "ERR_HANDLER_TIMEOUT", // Fastify
  "ERR_MODULE_NOT_FOUND", // Node
  "ERR_TLS_CERT_ALTNAME_INVALID", // Node
];
/** Pages for several codes, which have a heading each. */
const TABLES = ["exit-codes", "sqlstate"];
const WARNING = "src/contract/warning.ts";

function texts(folder: string, ending: RegExp): ReadonlyMap<string, string> {
  const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path) && !/generated\/|node_modules/.test(path))
    .map((path) => `${folder}/${path}`);
  return new Map(files.map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
}

const all = (text: string, pattern: RegExp): string[] => [
  ...new Set([...text.matchAll(pattern)].map(([, one]) => one!)),
];

const code = texts("src", /\.(?:ts|sql|lua)$/);
const source = [...code.values()].join("\n");
const errors = all(source, /"(ERR_[A-Z]+(?:_[A-Z]+)*)"/g).filter((one) => !FOREIGN.includes(one));
const warnings = all(code.get(WARNING)!, /"(HOLDFAST_\w+)"/g);
const states = all(source, /errcode = '(LK\d+)'/g);
const pages = readdirSync(join(ROOT, "docs/errors")).map((file) => file.replace(/\.md$/, ""));
const read = (page: string): string => readFileSync(join(ROOT, `docs/errors/${page}.md`), "utf8");
const headings = (page: string): string[] => all(read(page), /^## (\S+)$/gm);

/** Codes without a page, and pages without a code. */
function unmatched(codes: readonly string[], named: readonly string[]): readonly string[] {
  return [
    ...codes.filter((one) => !named.includes(one)).map((one) => `${one} has no page`),
    ...named.filter((one) => !codes.includes(one)).map((one) => `${one} is the page of no code`),
  ];
}

test("every code of an error or a warning has a page, and every page a code", () => {
  expect(errors.length).toBeGreaterThan(10);
  expect(warnings.length).toBeGreaterThan(7);
  const codes = [...errors, ...warnings];
  expect(
    unmatched(
      codes,
      pages.filter((page) => !TABLES.includes(page)),
    ),
  ).toEqual([]);
  expect(codes.filter((one) => !read(one).startsWith(`# ${one}\n`))).toEqual([]);
});

test("a code without a page, and a page without a code, are seen", () => {
  expect(unmatched(["ERR_NEW"], [])).toEqual(["ERR_NEW has no page"]);
  expect(unmatched([], ["ERR_OLD"])).toEqual(["ERR_OLD is the page of no code"]);
});

test("every exit code and every SQLSTATE has its heading", () => {
  const exits = [...Object.values(EXIT).map(String), "128+n"];
  expect(unmatched(exits, headings("exit-codes"))).toEqual([]);
  expect(states.length).toBeGreaterThan(4);
  expect(unmatched(states, headings("sqlstate"))).toEqual([]);
});

test("troubleshooting.md leads to every one of these pages", () => {
  const text = readFileSync(join(ROOT, "docs/troubleshooting.md"), "utf8");
  expect(pages.filter((page) => !text.includes(`(errors/${page}.md)`))).toEqual([]);
});

test("no page names a code that there is not", () => {
  // Variables of the environment look like warnings; those of tests and scripts are documented as well.
  const named = /\b((?:ERR|HOLDFAST)_[A-Z_]*[A-Z]|LK\d{3})\b/g;
  const ours = new Set(all(source, named));
  const elsewhere = [...texts("test", /\.ts$/), ...texts("scripts", /\.mjs$/)].flatMap(([, text]) => all(text, named));
  const variables = new Set(elsewhere.filter((one) => one.startsWith("HOLDFAST_")));
  const docs = [...texts("docs", /\.md$/)].filter(([path]) => !path.startsWith("docs/decisions/"));
  const wrong = [...docs, ["README.md", readFileSync(join(ROOT, "README.md"), "utf8")] as const].flatMap(
    ([path, text]) =>
      all(text, named)
        .filter((one) => !ours.has(one) && !variables.has(one))
        .map((one) => `${path}: ${one}`),
  );
  expect(wrong).toEqual([]);
});

test("every warning is made in one place, which gives it its page", async () => {
  const others = [...code].filter(([path, text]) => path !== WARNING && text.includes("emitWarning("));
  expect(others.map(([path]) => path)).toEqual([]);
  expect(warnings.filter((one) => !new RegExp(`warn\\(\\s*"${one}"`).test(source))).toEqual([]);
  const heard = new Promise((resolve) => process.once("warning", resolve));
  warn("HOLDFAST_CLOSE", "this is a test");
  expect(await heard).toMatchObject({
    name: "HoldfastWarning",
    code: "HOLDFAST_CLOSE",
    message: "this is a test",
    detail: `More: ${helpFor("HOLDFAST_CLOSE")}`,
  });
});

test("every error names its page, and the address is that of the site", () => {
  const made = [new LockTimeoutError("a", 1), new ArgumentError("b"), new FenceRejectedError("c", 2n, 1n)];
  for (const error of made) expect(error.help).toBe(helpFor(error.code));
  const classes = [...code.values()].flatMap((text) =>
    all(text, /readonly code(?:: typeof CODE)? = (.+);\n(?!.*helpFor|.*\/\*\*)/g),
  );
  expect(classes).toEqual([]);
  const config = readFileSync(join(ROOT, "site/.vitepress/config.mjs"), "utf8");
  const [, base = "none"] = /base: "([^"]+)"/.exec(config) ?? [];
  expect(new URL(helpFor("ERR_LOCK_LOST")).pathname).toBe(`${base}errors/ERR_LOCK_LOST`);
  expect(existsSync(join(ROOT, "docs/errors/ERR_LOCK_LOST.md"))).toBe(true);
});
