/** `npm run release:check` lets a tree pass that is ready, and refuses it with each fault by itself, in words that say where. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ROOT } from "./dist.ts";

const SCRIPT = join(ROOT, "scripts/release-check.mjs");
const { problemsOf } = (await import(SCRIPT)) as {
  readonly problemsOf: (root: string, tag?: string) => Promise<readonly string[]>;
};

const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

const READY: Readonly<Record<string, string>> = {
  "package.json": JSON.stringify({ version: "1.2.3", homepage: "https://github.com/example/holdfast" }),
  "package-lock.json": JSON.stringify({ version: "1.2.3", packages: { "": { version: "1.2.3" } } }),
  "CHANGELOG.md": "# Changes\n\n## 1.2.3 (2030-01-31)\n\n- New: a day.\n\n## 1.2.2, unreleased\n\n- It never was.\n",
  "README.md": "# It\n",
  "SECURITY.md": "# Security\n",
  "SUPPORT.md": "# Support\n",
  LICENSE: "MIT\n",
  "src/contract/help.ts": 'const PAGES = "https://example.github.io/holdfast/errors/";\n',
  "site/navigation.mjs": "export const TO_COME = [];\n",
  "site/.vitepress/config.mjs": 'const REPOSITORY = "https://github.com/example/holdfast";\n',
  "docs/start.md": "# Start\n\nA list of what to do.\n",
  "docs/generated/api.md": "TODO: made from the sources, which have words of their own.\n",
};

function tree(changed: Readonly<Record<string, string | undefined>> = {}): string {
  const root = mkdtempSync(join(tmpdir(), "holdfast-release-"));
  made.push(root);
  for (const [file, text] of Object.entries({ ...READY, ...changed })) {
    if (text === undefined) continue;
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

test("a tree that is ready may be released, by its own tag only", async () => {
  const root = tree();
  expect(await problemsOf(root)).toEqual([]);
  expect(await problemsOf(root, "v1.2.3")).toEqual([]);
  expect(await problemsOf(root, "v1.2.4")).toEqual(["the tag is v1.2.4, the version 1.2.3"]);
});

describe("each fault is refused, and said with its place", () => {
  const log = READY["CHANGELOG.md"] as string;
  test.each<readonly [string, Readonly<Record<string, string | undefined>>, string]>([
    ["no version", { "package.json": "{}" }, "package.json has no version: undefined"],
    [
      "another version in the lock file",
      { "package-lock.json": JSON.stringify({ version: "1.2.3", packages: { "": { version: "1.2.2" } } }) },
      "package-lock.json says 1.2.3 and 1.2.2, package.json says 1.2.3",
    ],
    ["no lock file", { "package-lock.json": undefined }, "package.json says 1.2.3: run npm install"],
    ["no section", { "CHANGELOG.md": "# Changes\n" }, "CHANGELOG.md has no section for 1.2.3"],
    ["a section above", { "CHANGELOG.md": `## 1.3.0\n\n${log}` }, "CHANGELOG.md has 1.3.0 above 1.2.3"],
    [
      "no day yet",
      { "CHANGELOG.md": log.replace("2030-01-31", "unreleased") },
      'CHANGELOG.md says "## 1.2.3 (unreleased)": write the day',
    ],
    ["no day at all", { "CHANGELOG.md": log.replace(" (2030-01-31)", "") }, 'CHANGELOG.md says "## 1.2.3"'],
    [
      "the placeholder in package.json",
      { "package.json": JSON.stringify({ version: "1.2.3", bugs: "https://github.com/holdfast/holdfast/issues" }) },
      "package.json:1 has the placeholder of an address",
    ],
    [
      "the placeholder in the messages",
      { "src/contract/help.ts": '\nconst PAGES = "https://holdfast.github.io/holdfast/errors/";\n' },
      "src/contract/help.ts:2 has the placeholder of an address",
    ],
    [
      "the placeholder on the site",
      { "site/.vitepress/config.mjs": 'const REPOSITORY = "https://github.com/holdfast/holdfast";\n' },
      "site/.vitepress/config.mjs:1 has the placeholder of an address",
    ],
    [
      "a page to come",
      { "site/navigation.mjs": 'export const TO_COME = ["scale.md"];\n' },
      "site/navigation.mjs names docs/scale.md as still to come",
    ],
    ["a page that is not finished", { "docs/start.md": "# Start\n\nTBD\n" }, "docs/start.md:3 is not finished: TBD"],
    ["no word on support", { "SUPPORT.md": undefined }, "SUPPORT.md is missing"],
  ])("%s", async (_, changed, said) => {
    const problems = await problemsOf(tree(changed));
    expect(problems).toContainEqual(expect.stringContaining(said));
  });
});

test("what is not committed is refused, and nothing is printed about what may go out", () => {
  const root = tree();
  const git = (...args: readonly string[]): void => {
    const who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"];
    execFileSync("git", [...who, ...args], { cwd: root, stdio: "ignore" });
  };
  const check = (): readonly [number | null, string] => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, "--root", root, "--tag", "v1.2.3"], {
      encoding: "utf8",
    });
    return [status, stdout + stderr];
  };
  git("init", "--quiet");
  git("add", ".");
  git("commit", "--quiet", "-m", "ready");
  expect(check()).toEqual([0, ""]);
  writeFileSync(join(root, "new.txt"), "");
  expect(check()).toEqual([1, "not committed: new.txt\n"]);
}, 60_000);

test("this repository is refused for as long as its address is a placeholder", async () => {
  const isPlaceholder = readFileSync(join(ROOT, "package.json"), "utf8").includes("github.com/holdfast/holdfast");
  const problems = await problemsOf(ROOT);
  const found = problems.filter((problem) => problem.includes("placeholder"));
  expect(found.length > 0).toBe(isPlaceholder);
});

test("the workflow checks all before it publishes, with provenance, by pinned actions", () => {
  const workflow = readFileSync(join(ROOT, ".github/workflows/release.yml"), "utf8");
  const steps = [...workflow.matchAll(/- (?:run|uses): (.+)/g)].map(([, step]) => step as string);
  const place = (part: string): number => steps.findIndex((step) => step.includes(part));
  expect(place("release-check")).toBeGreaterThan(-1);
  expect(place(".ci/run")).toBeGreaterThan(place("release-check"));
  expect(place("npm publish --provenance")).toBeGreaterThan(place(".ci/run"));
  expect(workflow).toMatch(/publish:\n +needs: check/);
  expect(workflow).toContain("id-token: write");
  for (const step of steps.filter((one) => one.startsWith("actions/"))) expect(step).toMatch(/@v\d+$|@[0-9a-f]{40}/);
});
