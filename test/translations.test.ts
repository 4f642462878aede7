/**
 * A page in another language says what the English one says: it has the same headings in the same order, the same tables with the same
 * rows, the same figures, and the same programs and commands; only words and comments differ. A change of one page alone fails here.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "./dist.ts";

/** The English pages that a page translates. Of several, each is a chapter, one level below its own page. */
const ENGLISH: Readonly<Record<string, readonly string[]>> = {
  "docs/zh/README.md": ["README.md"],
  "docs/zh/from-java.md": ["docs/from-redisson.md", "docs/from-curator.md"],
  "docs/zh/start.md": ["docs/start.md"],
  "docs/zh/story.md": ["docs/story.md"],
};

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const FENCED = /^```(\w*)\n([\s\S]*?)^```$/gm;
const withoutCode = (text: string): string => text.replaceAll(FENCED, "");

/** The levels of the headings, and what stands in them as it is in every language: numbers and code. */
function headings(text: string, deeper = 0): readonly string[] {
  return [...withoutCode(text).matchAll(/^(#+) (.*)$/gm)].map(([, signs = "", words = ""]) => {
    const same = words.match(/`[^`]+`|^\d+\.|^Holdfast$/g) ?? [];
    return [`h${signs.length + deeper}`, ...same].join(" ");
  });
}

/** How many rows each table has, and how many columns. */
function tables(text: string): readonly string[] {
  return [...withoutCode(text).matchAll(/(?:^\|.*\n)+/gm)].map(([table]) => {
    const rows = table.trimEnd().split("\n");
    return `${rows.length} rows of ${(rows[0]?.split("|").length ?? 0) - 2}`;
  });
}

/** What a reader copies: code without its comments and without what is printed. */
function programs(text: string): readonly string[] {
  return [...text.matchAll(FENCED)].map(([, language = "", code = ""]) => {
    const comment = language === "sh" ? /\s+#.*$/gm : /\s*\/\/ .*$/gm;
    return code
      .replaceAll(comment, "")
      .replaceAll(/console\.log\(`[^`]*`\)/g, "console.log()")
      .replaceAll(/<[^>\n]+>/g, "<>");
  });
}

/** The code that stands in the cells of the first columns: names that the reader looks for. */
function names(text: string): readonly string[] {
  const cells = [...withoutCode(text).matchAll(/^\|([^|]*)\|/gm)].map(([, cell = ""]) => cell);
  return cells.flatMap((cell) => cell.match(/`[^`]+`/g) ?? []);
}

/** Figures in the text, in any order. Those in code are compared with the code. */
function figures(text: string): readonly string[] {
  const words = withoutCode(text).replaceAll(/`[^`\n]*`|\]\([^)]*\)/g, " ");
  return [...words.matchAll(/\d[\d,.]*\d|\d/g)].map(([figure]) => figure).toSorted();
}

describe.each(Object.entries(ENGLISH))("%s", (page, sources) => {
  const text = read(page);
  const english = sources.map(read);
  const isWhole = sources.length === 1;

  test("has the headings of the English page", () => {
    const expected = english.flatMap((source) => headings(source, isWhole ? 0 : 1));
    expect(headings(text)).toEqual(isWhole ? expected : ["h1", ...expected]);
  });

  test("has its tables, and the names in them", () => {
    expect(tables(text)).toEqual(english.flatMap(tables));
    const known = names(text);
    expect(english.flatMap(names).filter((name) => !known.includes(name))).toEqual([]);
  });

  test("has its figures", () => {
    expect(figures(text)).toEqual(english.flatMap(figures).toSorted());
  });

  test("has no underscore between letters that are Chinese, where it is shown as it is", () => {
    expect(withoutCode(text).match(/\p{Script=Han}_|_\p{Script=Han}/gu)).toBeNull();
  });

  test("has its programs and commands", () => {
    expect(programs(text)).toEqual(english.flatMap(programs));
  });
});

test("every translated page is compared here", () => {
  const pages = readdirSync(join(ROOT, "docs/zh")).map((file) => `docs/zh/${file}`);
  expect(pages.toSorted()).toEqual(Object.keys(ENGLISH).toSorted());
});

test("a heading, a figure, a row or a line of code that is missing is seen", () => {
  const text = read("docs/from-redisson.md");
  expect(headings(text.replace(/^## .*$/m, ""))).not.toEqual(headings(text));
  expect(figures(read("README.md").replace("36,299", "36,298"))).not.toEqual(figures(read("README.md")));
  expect(tables(text.replace(/^\| `unlock.*\n/m, ""))).not.toEqual(tables(text));
  expect(names(text.replace("`isLocked()`", ""))).not.toEqual(names(text));
  expect(programs(text.replaceAll('wait: "2s"', 'wait: "3s"'))).not.toEqual(programs(text));
  expect(programs(text.replace(/\/\/ .*/, "// in other words"))).toEqual(programs(text));
});
