// Runs Holdfast on Bun and Deno, with binaries from npm, and on this Node as the measure: the conformance suite over memory, files and Redis with
// both client libraries; connect(), await using, renewals from a worker thread while the event loop is blocked, processes that end by themselves,
// and the command line. What is declined on a runtime has its reason in docs/runtimes.md.
//
//   npm run test:runtimes -- bun deno node --stores memory,file,redis
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startRedis } from "../build/lab/servers/redis.js";
import { argumentsOf } from "./arguments.mjs";
import { DECLINED } from "./runtimes/declined.mjs";

const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: { stores: { type: "string", default: "memory,file,ioredis,redis" } },
});
if (process.platform !== "linux" || process.arch !== "x64") {
  console.error("runtimes: these binaries are for Linux on x64 only");
  process.exit(69);
}
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(tmpdir(), "holdfast-runtimes");
const RUNTIMES = {
  node: [process.execPath],
  bun: [join(FOLDER, "node_modules/@oven/bun-linux-x64/bin/bun")],
  deno: [join(FOLDER, "node_modules/@deno/linux-x64-glibc/deno"), "run", "--allow-all", "--quiet"],
};
const CHECKS = ["connect", "using", "thread", "once", "ends-closed", "ends-held", "signals"];

const asked = positionals.length > 0 ? positionals : Object.keys(RUNTIMES);
const unknown = asked.filter((name) => !Object.hasOwn(RUNTIMES, name));
if (unknown.length > 0) {
  console.error(`runtimes: unknown runtime ${unknown.join(", ")}: one of ${Object.keys(RUNTIMES).join(", ")}`);
  process.exit(64);
}
install();
const redis = await startRedis();
const scratch = mkdtempSync(join(tmpdir(), "holdfast-runtimes-"));
let failed = false;
try {
  for (const name of asked) {
    console.log(`\n== ${name} ${versionOf(name)}`);
    for (const store of values.stores.split(",")) suite(name, store);
    for (const check of CHECKS) program(name, check);
    for (const pair of new Set([`node ${name}`, `${name} ${name}`, `${name} node`])) await together(...pair.split(" "));
    if (name === "deno") withoutClock();
    commandLine(name);
  }
} finally {
  await redis.stop();
  rmSync(scratch, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;

/** The binaries once; the package anew, as it was built. */
function install() {
  if (!existsSync(join(FOLDER, "node_modules/@deno"))) {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(join(FOLDER, "package.json"), '{ "private": true, "type": "module" }\n');
    const packages = ["bun", "deno", "ioredis", "redis"];
    console.log(`installing ${packages.join(" ")} …`);
    // Without scripts: the binaries lie in packages of their own.
    execFileSync("npm", ["install", "--silent", "--ignore-scripts", ...packages], { cwd: FOLDER, stdio: "inherit" });
  }
  const own = join(FOLDER, "node_modules/holdfast");
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  for (const part of ["dist", "package.json"]) cpSync(join(ROOT, part), join(own, part), { recursive: true });
  for (const part of ["conformance.mjs", "checks.mjs", "using.mjs", "declined.mjs"])
    cpSync(join(ROOT, "scripts/runtimes", part), join(FOLDER, part));
}

function versionOf(name) {
  const { stdout } = spawnSync(RUNTIMES[name][0], ["--version"], { encoding: "utf8" });
  return stdout.split("\n")[0].replace(/^\D+/, "");
}

function start(name, args, extra = {}) {
  const [binary, ...flags] = RUNTIMES[name];
  const { status, signal, stdout, stderr } = spawnSync(binary, [...flags, ...args], {
    cwd: FOLDER,
    encoding: "utf8",
    timeout: 900_000,
    env: { PATH: process.env.PATH, HOME: scratch, ...extra },
  });
  return { ended: signal ?? status, stdout, stderr };
}

function report(ok, what, details) {
  failed ||= !ok;
  console.log(`${ok ? "ok" : "FAILED"}: ${what}`);
  if (!ok) console.log(details);
}

function suite(name, store) {
  const where = store === "memory" ? "" : store === "file" ? mkdtempSync(join(scratch, "files-")) : redis.url;
  const { ended, stdout, stderr } = start(name, ["conformance.mjs", name, store, where]);
  const last = stdout.trim().split("\n").at(-1) ?? "";
  const ok = ended === 0 && /^\d+ promises kept/.test(last);
  report(ok, `${store}: ${ok ? last : `ended with ${ended}`}`, `${stdout}${stderr}`);
}

function program(name, check) {
  const reason = DECLINED[name]?.[check];
  if (reason !== undefined) return console.log(`declined: ${check}: ${reason}`);
  const dir = mkdtempSync(join(scratch, "files-"));
  const file = check === "using" ? "using.mjs" : "checks.mjs";
  const { ended, stdout, stderr } = start(name, [file, check], { HOLDFAST_URL: `file:${dir}`, REDIS_URL: redis.url });
  const ok = ended === (check === "signals" ? "SIGTERM" : 0) && stdout === `${check}: ok\n` && stderr === "";
  report(ok, check, `ended with ${ended}\n${stdout}${stderr}`);
  return undefined;
}

/** Where Deno may not ask the system for its clock, what needs that is refused, and the rest works. */
function withoutClock() {
  const dir = mkdtempSync(join(scratch, "files-"));
  const [binary] = RUNTIMES.deno;
  const flags = [
    "run",
    "--quiet",
    "--no-prompt",
    "--allow-env",
    "--allow-sys",
    "--allow-net",
    "--allow-read",
    "--allow-write",
  ];
  const { status, stdout, stderr } = spawnSync(binary, [...flags, "checks.mjs", "no-clock"], {
    cwd: FOLDER,
    encoding: "utf8",
    timeout: 900_000,
    env: { PATH: process.env.PATH, HOME: scratch, HOLDFAST_URL: `file:${dir}`, REDIS_URL: redis.url },
  });
  report(status === 0 && stdout === "no-clock: ok\n", "without --allow-ffi: refused, not wrong", `${stdout}${stderr}`);
}

/** Two processes on the same files, one several seconds older: what one has written down must mean the same to the other. */
async function together(older, younger) {
  const env = { PATH: process.env.PATH, HOME: scratch, HOLDFAST_URL: `file:${mkdtempSync(join(scratch, "files-"))}` };
  const children = [];
  const begin = async (name, role, until) => {
    const [binary, ...flags] = RUNTIMES[name];
    const child = spawn(binary, [...flags, "checks.mjs", role], { cwd: FOLDER, env, stdio: ["pipe", "pipe", "pipe"] });
    // Only ends what has failed anyway.
    setTimeout(() => child.kill("SIGKILL"), 300_000).unref();
    const made = { child, printed: "", exited: once(child, "exit") };
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (made.printed += String(data)));
    children.push(made);
    await said(made, until);
    return made;
  };
  const said = async (one, text) => {
    while (!one.printed.includes(text) && one.child.exitCode === null && one.child.signalCode === null) await pause(20);
  };
  const first = await begin(older, "older", "ready");
  // Much older than the other's lease lasts.
  await pause(12_000);
  const second = await begin(younger, "younger", "held");
  first.child.stdin.end("\n");
  await said(first, "waits");
  await pause(1500);
  second.child.stdin.end("\n");
  const codes = await Promise.all(children.map(async ({ exited }) => (await exited)[0]));
  report(
    codes.join() === "0,0",
    `files of ${older} and of a younger ${younger}`,
    children.map(({ printed }) => printed).join(""),
  );
}

function commandLine(name) {
  const dir = mkdtempSync(join(scratch, "files-"));
  const main = "node_modules/holdfast/dist/cli/main.js";
  const env = { HOLDFAST_URL: `file:${dir}` };
  const inside = `test "$HOLDFAST_FENCE" -gt 0 && echo mine && exit 7`;
  const { ended, stdout, stderr } = start(name, [main, "run", "hello", "--", "sh", "-c", inside], env);
  report(
    ended === 7 && stdout === "mine\n",
    "holdfast run: the command's exit code",
    `ended with ${ended}\n${stdout}${stderr}`,
  );
  const ls = start(name, [main, "ls", "--json"], env);
  report(
    ls.ended === 0 && JSON.stringify(JSON.parse(ls.stdout).held) === "[]",
    "holdfast ls: nothing is left",
    `${ls.stdout}${ls.stderr}`,
  );
}
