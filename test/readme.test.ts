/**
 * The first page keeps what it says: its program runs when it is pasted, its figures stand on the pages that it links to, its
 * pictures are small, and what a newcomer reads before "Use" fits on two screens. The Chinese page has the same of all this.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { ROOT } from "./dist.ts";

const run = promisify(execFile);
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** What both pages say in figures, and the line of a page that says so too. */
const FIGURES: readonly (readonly [figures: readonly string[], page: string, line: RegExp])[] = [
  [["36,299", "1,018"], "docs/soak.md", /no violation in 36,299 sections and 1,018 faults/],
  [["256 "], "docs/soak.md", /^\| late writes refused by the guard .*\| +256 \|$/m],
  [["28.2 "], "docs/benchmarks.md", /best peer that starves none .*\| +28\.2 \|/],
  [["1.16"], "docs/benchmarks.md", /^\| 1 loop: client CPU per cycle against the cheapest peer .*\| +1\.16 \|/m],
  [["5.54"], "docs/benchmarks.md", /^\| p50 ms after SIGKILL .*\| +5\.54 \|/m],
];

const PAGES = ["README.md", "docs/zh/README.md"];

/** The tables of a page of judges in which both sides took turns: their rows, by column. */
function turnsOfJudges(): readonly Readonly<Record<string, string>>[] {
  const tables = [...read("docs/judges.md").matchAll(/^(\|.*sections of Holdfast.*)\n\|[- |]+\n((?:\|.*\n)+)/gm)];
  const cells = (line: string): readonly string[] => line.split("|").map((cell) => cell.trim());
  return tables.flatMap(([, head = "", body = ""]) => {
    const columns = cells(head);
    return body
      .trim()
      .split("\n")
      .map((line) => Object.fromEntries(cells(line).map((cell, at) => [columns[at] ?? "", cell])));
  });
}

describe.each(PAGES)("%s", (page) => {
  const text = read(page);
  const [, program = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(text) ?? [];

  test("its first program has ten lines, and runs when it is pasted, in two processes at once", async () => {
    expect(program.trim().split("\n").length).toBeLessThanOrEqual(10);
    const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(ROOT, join(folder, "node_modules/holdfast"));
    // Its work takes a second, and its `wait` is for a machine that does nothing else.
    writeFileSync(join(folder, "lock.mjs"), program.replace('"5s"', '"5m"').replace("1_000", "100"));
    const env = { PATH: process.env["PATH"], HOLDFAST_URL: `file:${join(folder, "locks")}` };
    const start = async (): Promise<bigint> => {
      const { stdout } = await run(process.execPath, ["lock.mjs"], { cwd: folder, env });
      return BigInt(/\d{10,}/.exec(stdout)?.[0] ?? 0);
    };
    const fences = await Promise.all([start(), start()]);
    expect(new Set(fences).size).toBe(2);
    expect(fences).not.toContain(0n);
  });

  test("its figures are those of the pages that it links to", () => {
    for (const [figures, source, line] of FIGURES) {
      expect(text).toContain(`${source.replace("docs/", "")}`);
      expect(read(source)).toMatch(line);
      expect(figures.filter((figure) => !text.includes(figure))).toEqual([]);
    }
    const turns = turnsOfJudges();
    const sections = turns.flatMap((row) =>
      Object.entries(row).flatMap(([column, cell]) =>
        /^sections of Holdfast$|^of (?:theirs|Redisson|ShedLock|Go's mutex)$/.test(column) ? [Number(cell)] : [],
      ),
    );
    expect(sections).toHaveLength(turns.length * 2);
    expect(turns.map((row) => row["overlaps"])).toEqual(turns.map(() => "0"));
    expect(text).toContain(String(turns.length));
    expect(text).toContain(sections.reduce((sum, one) => sum + one).toLocaleString("en-US"));
  });

  test("its pictures are there, a chart, the console, `holdfast top` and a report of the lab, each below 150 kB", () => {
    const pictures = [...text.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, path = ""]) => path);
    const names = pictures.map((path) => path.replace(/.*\//, ""));
    expect(names.toSorted()).toEqual(["console-locks.png", "hot-processes.svg", "lab-report.png", "top.svg"]);
    const sizes = pictures.map((path) => statSync(join(ROOT, dirname(page), path)).size);
    expect(sizes.filter((size) => size > 150_000)).toEqual([]);
  });
});

test("what stands before “Use” fits on two screens", () => {
  const before = read("README.md").split(/^## Use$/m)[0] ?? "";
  expect(before.match(/^## .*$/gm)).toEqual(["## Why it is different", "## Backends", "## When not to use it"]);
  // In a browser, 763 words in 52 lines were 2,110 pixels in a column of 838, as GitHub has it: two screens of 1,080.
  expect(before.split(/\s+/).length).toBeLessThan(780);
  expect(before.split("\n").length).toBeLessThan(55);
  expect(before).not.toContain("await using");
});
