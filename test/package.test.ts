/** What is published, and what it is built with: nothing else travels, and everything is what it was when it was chosen. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { ROOT } from "./dist.ts";

const run = promisify(execFile);

interface Packed {
  readonly files: readonly { readonly path: string }[];
}

test("the package holds dist, README, CHANGELOG, LICENSE and SECURITY, and nothing else", async () => {
  // Without scripts: dist/ has been built before all tests.
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: ROOT });
  const [packed] = JSON.parse(stdout) as [Packed];
  const paths = packed.files.map(({ path }) => path);
  const besides = paths.filter((path) => !/^dist\/.+\.(?:js|d\.ts)$/.test(path));
  expect(besides.toSorted()).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "package.json"]);
  expect(paths).toContain("dist/index.js");
  expect(paths).toContain("dist/cli/main.js");
  // npm itself needs long to start on a busy machine.
}, 180_000);

interface LockEntry {
  readonly integrity?: string;
  readonly link?: boolean;
  readonly resolved?: string;
}

test("every entry of the lock file has the digest of what is installed", () => {
  const { lockfileVersion, packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    readonly lockfileVersion: number;
    readonly packages: Readonly<Record<string, LockEntry>>;
  };
  expect(lockfileVersion).toBe(3);
  const entries = Object.entries(packages).filter(([path]) => path !== "");
  expect(entries.length).toBeGreaterThan(100);
  const unchecked = entries.filter(([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ""));
  expect(unchecked.map(([path]) => path)).toEqual([]);
  expect(entries.filter(([, { link }]) => link === true)).toEqual([]);
  // Digests say what it is; where it comes from is up to the user who installs it.
  expect(entries.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
});

test("the README says of every page that is not in the package where it is", () => {
  const text = readFileSync(join(ROOT, "README.md"), "utf8");
  const links = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, target]) => target as string);
  const outside = links.filter((target) => !/^(?:https?:|CHANGELOG\.md|LICENSE|SECURITY\.md|README\.md)/.test(target));
  expect(outside.length).toBeGreaterThan(0);
  expect(text).toContain("in the repository, not in the package");
});

test("the change log begins with the next version, and has the one that is published", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { readonly version: string };
  const text = readFileSync(join(ROOT, "CHANGELOG.md"), "utf8");
  const headings = [...text.matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(([, number]) => number as string);
  expect(headings).toContain(version);
  const [newest] = headings as [string];
  expect(newest.localeCompare(version, "en", { numeric: true })).toBeGreaterThanOrEqual(0);
  // A section without a line says that a habit was forgotten, not that nothing changed.
  for (const section of text.split(/^## /m).slice(1)) expect(section).toMatch(/^- /m);
});
