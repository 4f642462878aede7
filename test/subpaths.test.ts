/** Every subpath of the package, as users import it: its types under each way to find modules, and its names by import and by require(). */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "./dist.ts";

const run = promisify(execFile);
const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  readonly exports: Readonly<Record<string, unknown>>;
};
const SUBPATHS = Object.keys(exports)
  .filter((path) => path !== "./package.json")
  .map((path) => `holdfast${path.slice(1)}`);

/** An app beside all optional peers. */
function app(): string {
  const root = mkdtempSync(join(tmpdir(), "holdfast-subpaths-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "node_modules"));
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (!name.startsWith(".")) symlinkSync(join(ROOT, "node_modules", name), join(root, "node_modules", name));
  }
  symlinkSync(ROOT, join(root, "node_modules/holdfast"));
  return root;
}

test("their types are right for strict users, also where declarations are checked: NodeNext as ESM and as CommonJS, and for bundlers", async () => {
  const root = app();
  expect(SUBPATHS.length).toBeGreaterThan(25);
  const program = SUBPATHS.map((path, at) => `import * as m${at} from "${path}";\nm${at} satisfies object;\n`).join("");
  for (const file of ["esm.mts", "cjs.cts", "bundled.ts"]) writeFileSync(join(root, file), program);
  // Without --skipLibCheck: a declaration that is wrong is not taken for `any`.
  const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--types", "node"];
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const compile = async (...args: readonly string[]): Promise<string> =>
    (await run(process.execPath, [tsc, ...options, ...args], { cwd: root }).catch((error: { stdout: string }) => error))
      .stdout;
  expect(await compile("--module", "nodenext", "esm.mts", "cjs.cts")).toBe("");
  expect(await compile("--module", "esnext", "--moduleResolution", "bundler", "bundled.ts")).toBe("");
});

test("each is the same module by import and by require()", async () => {
  const program = `import { createRequire } from "node:module";
    const require = createRequire(import.meta.url);
    for (const path of ${JSON.stringify(SUBPATHS)}) {
      const [imported, required] = [await import(path), require(path)];
      const names = Object.keys(imported);
      if (names.length === 0 || names.some((name) => imported[name] !== required[name])) console.log(path);
    }
    process.exit();`;
  const root = app();
  writeFileSync(join(root, "both.mjs"), program);
  expect((await run(process.execPath, ["both.mjs"], { cwd: root })).stdout).toBe("");
});
