/**
 * Builds the site, or serves it while pages are written: `npm run docs:build`, `npm run docs:dev`. On first use it installs this package,
 * and it builds dist/ where that is old, because the API reference is made from it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SITE = import.meta.dirname;
const ROOT = join(SITE, "..");
const NOTE = join(SITE, "node_modules/.installed-lock");

function run(command, args, cwd = ROOT) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/** Again when the lock file has changed: a site of other versions would be a riddle. */
function install() {
  const lock = readFileSync(join(SITE, "package-lock.json"), "utf8");
  if (existsSync(NOTE) && readFileSync(NOTE, "utf8") === lock) return;
  console.log("installing what builds the site, in site/ (npm ci; once, half a minute or so) …");
  run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"], SITE);
  writeFileSync(NOTE, lock);
}

if (!existsSync(join(ROOT, "node_modules/typescript"))) {
  console.error("Run `npm ci` first: the API reference is made from the built package.");
  process.exit(1);
}
install();
run(process.execPath, [join(ROOT, "scripts/ensure-built.mjs")]);
const { writeApi } = await import("./api.mjs");
const names = await writeApi();
console.log(`API reference: ${names.length} subpaths`);
const [command = "build", ...args] = process.argv.slice(2);
run(process.execPath, [join(SITE, "node_modules/vitepress/bin/vitepress.js"), command, SITE, ...args]);
