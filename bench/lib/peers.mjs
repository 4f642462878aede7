/** Installs the peers on first use, in bench/ or judges/ only; a peer that cannot be had here is reported with the reason. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

const BENCH = join(import.meta.dirname, "..");

/** `npm ci` in the folder, once. Resolves with the reason when it failed: then only what is there takes part. */
export async function install(say, folder = BENCH) {
  if (existsSync(join(folder, "node_modules", ".package-lock.json"))) return undefined;
  say(`installing the peers in ${basename(folder)}/ (npm ci; once, a minute or so) …`);
  return await run("npm", ["ci", "--no-audit", "--no-fund", "--no-progress"], folder);
}

/** The installed version, or `undefined`. */
export function versionOf(name) {
  for (const root of [BENCH, join(BENCH, "..")]) {
    const file = join(root, "node_modules", name, "package.json");
    if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")).version;
  }
  return undefined;
}

/** Resolves with `undefined`, or with the last line of what went wrong. */
export function run(command, args, cwd) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let words = "";
    const hear = (data) => (words = (words + data).slice(-4000));
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code) =>
      resolve(code === 0 ? undefined : `${command} ended with ${code}: ${words.trim().split("\n").at(-1)}`),
    );
  });
}
