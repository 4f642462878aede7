/**
 * The pages can be read: no sentence is longer than a reader can hold, and none has words that need a second reading.
 *
 * On the text of commit b82c9ea, before these rules, they found 108 long sentences and 114 hard words. What is not read here: decisions, which tell how it was;
 * translations; and what is made from the sources.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "./dist.ts";

const NOT_READ = /^docs\/(?:decisions|generated|zh)\//;

/** What one reads first, or on the way from another lock; the rest is for those who look something up. */
const READ_FIRST = /^README\.md$|^docs\/(?:README|start|choose|concepts|story|from-[\w-]+|recipes\/[\w-]+)\.md$/;
const WORDS_MAX = { first: 32, other: 40 } as const;

interface Rule {
  readonly banned: RegExp;
  readonly say: string;
}

/** In comments and messages more words are banned: words.test.ts. Here these stay: "nobody" and the like are what people say. */
const RULES: readonly Rule[] = [
  { banned: /\bwhoever\b/gi, say: "the process that, all who" },
  { banned: /\b(?:is|are|was|were|be|been|until|not) told\b/gi, say: "learns, is reported" },
  { banned: /[,|] and not\b/gi, say: "but not, instead of; as a heading: is lost after" },
  { banned: /\buntil you do\b/gi, say: "what is needed, and when" },
  { banned: /\bunless (?:said|told)\b/gi, say: "by default" },
  { banned: /\bagain and again\b/gi, say: "repeatedly" },
  { banned: /\bin vain\b/gi, say: "without success, why it failed" },
  { banned: /\b(?:a|one) look\b/gi, say: "a search, a try" },
  { banned: /\b(?:for|of|in|an|lose|loses|lost) office\b/gi, say: "leader, election, lose the lease" },
  { banned: /\bbelieves? to\b/gi, say: "believes that it" },
  { banned: /\bmend(?:s|ed|ing)?\b/gi, say: "fix, repair" },
  { banned: /\banew\b|\breckon|\bheed(?:s|ed)?\b/gi, say: "again, compute, take effect" },
  { banned: /\bshall\b|\bhence\b|\bthus\b|\bwhilst\b|\bthere(?:of|in)\b/gi, say: "must, so, while" },
  {
    banned: /\bblue moon\b|\bto and fro\b|\bby halves\b|\bbears? (?:it |them )?out\b/gi,
    say: "what happens; no idioms",
  },
  { banned: /\bsimply\b|\bobviously\b|\bof course\b/gi, say: "nothing: leave it out" },
  { banned: /\bseamless|\bblazing|\bpowerful\b|\brobust\b|\bleverag|\butiliz/gi, say: "what it does, in figures" },
];

/** A page without code, comments and addresses of links. A piece of code in a sentence counts as one word. */
function prose(markdown: string): string {
  return markdown
    .replaceAll(/^( *)(`{3,})[^\n]*\n[\s\S]*?^\1\2$/gm, "\n")
    .replaceAll(/<!--[\s\S]*?-->/g, "\n")
    .replaceAll(/`[^`\n]*`/g, "`code`")
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, "$1");
}

/** Paragraphs, items of lists, and cells of tables; no headings. */
function pieces(text: string): readonly string[] {
  return text
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=[#|])/)
    .filter((piece) => !piece.startsWith("#"))
    .flatMap((piece) => (piece.startsWith("|") ? piece.split("|") : [piece]))
    .map((piece) =>
      piece
        .replace(/^\s*(?:[-*]|\d+\.)\s+/, "")
        .replaceAll(/\s+/g, " ")
        .trim(),
    );
}

const sentences = (piece: string): readonly string[] => piece.split(/(?<=[.!?…]["”)*_]*)\s/);

function tooLong(page: string, markdown: string): readonly string[] {
  const most = READ_FIRST.test(page) ? WORDS_MAX.first : WORDS_MAX.other;
  return pieces(prose(markdown))
    .flatMap(sentences)
    .map((sentence) => [sentence.split(" ").length, sentence] as const)
    .filter(([count]) => count > most)
    .map(([count, sentence]) => `${page}: ${count} words: ${sentence}`);
}

function hardWords(page: string, markdown: string): readonly string[] {
  const text = prose(markdown).replaceAll(/\s+/g, " ");
  return RULES.flatMap(({ banned, say }) =>
    [...text.matchAll(banned)].map(({ 0: words, index }) => {
      const around = text.slice(Math.max(0, index - 40), index + words.length + 40);
      return `${page}: "${words}" in "${around}"; say: ${say}`;
    }),
  );
}

const pages = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "SUPPORT.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).map((file) => `docs/${file}`),
]
  .filter((path) => path.endsWith(".md") && !NOT_READ.test(path))
  .map((path) => [path, readFileSync(join(ROOT, path), "utf8")] as const);

describe("the pages", () => {
  test("have no sentence that is too long", () => {
    expect(pages.length).toBeGreaterThan(35);
    expect(pages.flatMap(([page, text]) => tooLong(page, text))).toEqual([]);
  });

  test("have no words that are hard to read", () => {
    expect(pages.flatMap(([page, text]) => hardWords(page, text))).toEqual([]);
  });
});

describe("what was written before is seen", () => {
  test.each([
    "A distributed lock for Node that tells you when it was lost, and needs no server until you do.",
    "| backend | URL | fair queue | fence | exclusion survives | and not |",
    "You are told before anybody else gets in.",
    "**A leader**: `elect` runs for office again and again.",
    "The port is 2379 unless said.",
    "Without authentication whoever reaches the cluster can\ntake every lock.",
  ])("%s", (sentence) => {
    expect(hardWords("docs/new.md", sentence).length).toBeGreaterThan(0);
  });

  test("a sentence of README's list of a lease's members, and its limit", () => {
    const list = `A lease has ${Array.from({ length: 31 }, (_, at) => `member${at}`).join(", ")}.`;
    expect(tooLong("README.md", list)).toHaveLength(1);
    expect(tooLong("docs/cli.md", list)).toEqual([]);
    expect(tooLong("docs/cli.md", `${list} ${list}`)).toEqual([]);
    expect(tooLong("docs/cli.md", `- ${list.replace(".", ";")} ${list}`)).toHaveLength(1);
  });

  test("code is not read, and neither are addresses", () => {
    expect(hardWords("docs/new.md", "```sh\nwhoever # shall\n```\nIt is `whoever`: [this](docs/whoever.md).")).toEqual(
      [],
    );
  });
});
