/**
 * Links of the pages lead somewhere, on GitHub and on the site: to files that are there, and to headings by the anchors that both make of them.
 * And the site's navigation has every page.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "./dist.ts";

interface Group {
  readonly pages: readonly { readonly text: string; readonly file: string }[];
}

const { slugOf } = (await import(join(ROOT, "site/slug.mjs"))) as { readonly slugOf: (heading: string) => string };
const navigation = (await import(join(ROOT, "site/navigation.mjs"))) as {
  readonly ENGLISH: readonly Group[];
  readonly CHINESE: readonly Group[];
  readonly TO_COME: readonly string[];
  readonly GUIDES: Readonly<
    Record<string, readonly { readonly text: string; readonly link: string; readonly file: string }[]>
  >;
};

const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
  // Made from the declarations when the site is built.
  .filter((file) => file.endsWith(".md") && !file.startsWith("generated"));
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "SUPPORT.md",
  "CHANGELOG.md",
  ...docs.map((file) => `docs/${file}`),
].map((path) => [path, readFileSync(join(ROOT, path), "utf8")] as const);

/** Without what is code: there, brackets are not links, and a # is not a heading. */
const prose = (text: string): string => text.replaceAll(/^( *)(`{3,})[^\n]*\n[\s\S]*?^\1\2$/gm, "");

/** The anchors of a page; of equal headings the later ones have a number. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of prose(text).matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = slugOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/(?<![\w`])_|_(?![\w`])/g, ""));
    let own = slug;
    for (let times = 1; anchors.has(own); times++) own = `${slug}-${times}`;
    anchors.add(own);
  }
  return anchors;
}

const anchors = new Map(pages.map(([path, text]) => [path, anchorsOf(text)]));

/** Links of a page that lead nowhere. */
function broken(path: string, text: string): readonly string[] {
  const links = [
    ...prose(text)
      .replaceAll(/`[^`\n]*`/g, "``")
      .matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g),
  ];
  return links
    .map(([, link = ""]) => link)
    .filter((link) => {
      if (/^[a-z]+:/i.test(link)) return false;
      const [file = "", anchor] = decodeURI(link).split("#", 2);
      const target = file === "" ? path : normalize(join(dirname(path), file));
      if (target.startsWith("..") || !existsSync(join(ROOT, target))) return true;
      return anchor !== undefined && anchors.get(target)?.has(anchor) !== true;
    })
    .map((link) => `${path}: ${link}`);
}

test("every link of every page leads to a file that is there, and to a heading that it has", () => {
  expect(pages.length).toBeGreaterThan(80);
  expect(pages.flatMap(([path, text]) => broken(path, text))).toEqual([]);
});

test("every page has one title, so that the site lists all its other headings", () => {
  const titles = pages.map(([path, text]) => [path, prose(text).match(/^# /gm)?.length ?? 0]);
  expect(titles.filter(([, count]) => count !== 1)).toEqual([]);
});

test("a link to nothing is seen, and code is not taken for one", () => {
  const links = ["[a](none.md)", "[b](concepts.md#none)", "[c](#none)", "![d](img/none.png)", "[e](../../outside)"];
  for (const link of links) expect(broken("docs/cli.md", `see ${link}, please`), link).toHaveLength(1);
  const good =
    "[a](concepts.md#re-entry) [b](https://example.com) `[c](none.md)` [d](backends/)\n```\n[e](none.md)\n```\n";
  expect(broken("docs/cli.md", good)).toEqual([]);
});

test("anchors are those of GitHub", () => {
  const text =
    "# `locked(locks, key, options)`\n## What is left?\n## What is left\n### A [link](x.md), and _more_\n```\n# no\n```\n";
  expect([...anchorsOf(text)]).toEqual([
    "lockedlocks-key-options",
    "what-is-left",
    "what-is-left-1",
    "a-link-and-more",
  ]);
});

test("the navigation of the site has every page once, and names no page that is not there", () => {
  const named = [...navigation.ENGLISH, ...navigation.CHINESE].flatMap((group) => group.pages.map(({ file }) => file));
  expect(new Set(named).size).toBe(named.length);
  // Decisions are listed from their folder; the home page is the way to all others.
  const listed = docs.filter((file) => file !== "README.md" && !file.startsWith("decisions/"));
  expect(listed.filter((file) => !named.includes(file))).toEqual([]);
  expect(named.filter((file) => !docs.includes(file) && !navigation.TO_COME.includes(file))).toEqual([]);
});

test("each subpath of the package has its guide in the API reference, a page of the site with a name of its own", () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { readonly exports: object };
  const subpaths = Object.entries(exports).filter(([, target]) => typeof target === "object");
  expect(Object.keys(navigation.GUIDES).toSorted()).toEqual(
    subpaths.map(([path]) => path.replace(/^\./, "holdfast")).toSorted(),
  );
  const guides = Object.values(navigation.GUIDES).flat();
  expect(guides.filter(({ file, text }) => text === file || !existsSync(join(ROOT, "docs", file)))).toEqual([]);
});
