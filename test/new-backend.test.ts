/** `npm run new-backend` creates a backend that compiles, and whose conformance tests run and fail until it is built. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "./dist.ts";

const run = promisify(execFile);
/** What the script changes, and what one file of conformance tests needs. */
const NEEDED = ["src", "test/conformance", "test/budget", "package.json", "tsconfig.json"];
const TYPES = { extends: "./tsconfig.json", include: ["src", "test/conformance/teapot.test.ts"] };
const TESTS = { test: { include: ["test/conformance/teapot.test.ts"], testTimeout: 100_000 } };
const MOST_CREATED = 20;
const MOST_TOUCHED = 10;

interface Lists {
  readonly created: readonly string[];
  readonly touched: readonly string[];
  readonly byHand: readonly string[];
}

test("a new backend compiles, has its rows, and fails its conformance tests until it is built", async () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-new-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const path of NEEDED) cpSync(join(ROOT, path), join(root, path), { recursive: true });
  writeFileSync(join(root, "tsconfig.new.json"), JSON.stringify(TYPES));
  writeFileSync(join(root, "vitest.config.mjs"), `export default ${JSON.stringify(TESTS)};`);
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  const script = join(ROOT, "scripts/new-backend.mjs");
  const { stdout } = await run(process.execPath, [script, "teapot", "--scheme", "tea", "--root", root, "--json"]);
  const { created, touched, byHand } = JSON.parse(stdout) as Lists;

  // As few files as CONTRIBUTING.md promises, and it names each of those that are there already.
  expect(created.length).toBeLessThanOrEqual(MOST_CREATED);
  const existing = new Set([...touched, ...byHand.map((line) => line.slice(0, line.indexOf(":")))]);
  expect(existing.size).toBeLessThanOrEqual(MOST_TOUCHED);
  const contributing = readFileSync(join(ROOT, "CONTRIBUTING.md"), "utf8");
  expect([...existing].filter((path) => !contributing.includes(`\`${path}\``))).toEqual([]);

  const tsc = join(root, "node_modules/typescript/bin/tsc");
  await run(process.execPath, [tsc, "-p", "tsconfig.new.json"], { cwd: root });

  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const failed = (await run(process.execPath, [vitest, "run", "--reporter=json", "--outputFile=result.json"], {
    cwd: root,
  }).then(
    () => undefined,
    (error: unknown) => error,
  )) as { code: number } | undefined;
  expect(failed?.code).toBe(1);
  const result = JSON.parse(readFileSync(join(root, "result.json"), "utf8")) as {
    readonly numFailedTests: number;
    readonly testResults: readonly { readonly assertionResults: readonly { readonly failureMessages: string[] }[] }[];
  };
  expect(result.numFailedTests).toBeGreaterThan(50);
  const messages = result.testResults.flatMap(({ assertionResults }) =>
    assertionResults.flatMap(({ failureMessages }) => failureMessages),
  );
  expect(messages.join("\n")).toContain("attempt() of the teapot backend is still to be built");
}, 180_000);

test("a name that is no folder's name, or that is taken, is refused and nothing is written", async () => {
  const script = join(ROOT, "scripts/new-backend.mjs");
  for (const args of [["Bad Name"], [], ["redis"], ["tea", "--scheme", ":"], ["tea", "--what"]]) {
    const error = (await run(process.execPath, [script, ...args]).then(
      () => undefined,
      (reason: unknown) => reason,
    )) as { code: number; stderr: string } | undefined;
    expect(error?.code).toBe(64);
    expect(error?.stderr).toContain("Usage: npm run new-backend");
  }
});
