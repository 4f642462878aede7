// Runs the conformance tests on other versions of the stores, and writes what was run into docs/platforms.md.
//
//   npm run test:platforms                        all of scripts/platforms/list.mjs, minutes each
//   npm run test:platforms -- valkey-9 etcd-3.5   these only; what is known of the others stays
//   npm run test:platforms -- --table             only writes the table anew
//
// What cannot be had is written down with the reason. Exits with 1 where a test was red.
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { argumentsOf } from "./arguments.mjs";
import { fromDebian, fromEmbedded, fromMaven, fromPython } from "./platforms/archives.mjs";
import { PLATFORMS } from "./platforms/list.mjs";
import { tableOf, withTable } from "./platforms/table.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const CACHE = join(root, "node_modules/.cache/holdfast-platforms");
const RESULTS = join(root, "scripts/platforms/results.json");
const PAGE = join(root, "docs/platforms.md");

async function folderOf({ debian, embedded, maven, python }) {
  if (debian !== undefined) return await fromDebian(CACHE, debian);
  if (embedded !== undefined) return await fromEmbedded(CACHE, embedded);
  if (maven !== undefined) return await fromMaven(CACHE, maven);
  if (python !== undefined) return await fromPython(CACHE, python);
  return undefined;
}

async function versionOf([program, ...args], folder) {
  const { findProgram } = await import("../build/lab/servers/programs.js");
  const path = await findProgram(program, folder === undefined ? {} : { folders: [folder] });
  if (program.endsWith(".jar")) {
    // Beside it, or behind it, is its name with the version.
    const names = readdirSync(dirname(realpathSync(path))).join("\n");
    return new RegExp(`^${basename(program, ".jar")}-(\\d+\\.\\d+\\.\\d+)\\.jar$`, "m").exec(names)?.[1] ?? "unknown";
  }
  const { stdout } = await run(path, args);
  return /\d+\.\d+(?:\.\d+)?/.exec(stdout)?.[0] ?? "unknown";
}

/** Counts of one run of vitest: `{ passed, failed }`. */
function conformance(tests, folder) {
  const file = join(CACHE, "report.json");
  const args = ["vitest", "run", "--reporter=json", `--outputFile=${file}`];
  const env = { ...process.env, ...(folder === undefined ? {} : { HOLDFAST_LAB_PROGRAMS: folder }) };
  if (folder !== undefined) env.PATH = `${folder}${delimiter}${env.PATH}`;
  return new Promise((resolve, reject) => {
    const child = spawn("npx", [...args, ...tests.map((name) => `test/conformance/${name}.test.ts`)], {
      cwd: root,
      env,
      stdio: ["ignore", "ignore", "inherit"],
    });
    child.once("error", reject);
    child.once("close", () => {
      const report = JSON.parse(readFileSync(file, "utf8"));
      const red = report.testResults.flatMap(({ assertionResults }) =>
        assertionResults
          .filter(({ status }) => status === "failed")
          .map(({ fullName, failureMessages }) => `${fullName}: ${String(failureMessages[0]).split("\n")[0]}`),
      );
      // A file that could not begin has no red tests, but some that did not run, or none at all.
      for (const { name, status, message, assertionResults } of report.testResults) {
        const isRed = assertionResults.some((one) => one.status === "failed");
        if (status === "failed" && !isRed) red.push(`${basename(name)}: ${String(message).split("\n")[0]}`);
      }
      for (const name of red) console.error(`red: ${name}`);
      resolve({ passed: report.numPassedTests, failed: red.length + report.numPendingTests });
    });
  });
}

async function tryOut(platform) {
  const { store, version, tests } = platform;
  const day = new Date().toISOString().slice(0, 10);
  let folder;
  let found;
  try {
    folder = await folderOf(platform);
    found = await versionOf(version, folder);
  } catch (error) {
    return {
      store,
      day,
      reason: String(error.stderr || error.message)
        .trim()
        .split("\n")
        .at(-1),
    };
  }
  console.error(`${store} ${found}: ${tests.join(", ")} …`);
  return { store, version: found, day, tests, ...(await conformance(tests, folder)) };
}

const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: { table: { type: "boolean", default: false } },
});
const unknown = positionals.filter((name) => !PLATFORMS.some((platform) => platform.name === name));
if (unknown.length > 0) {
  console.error(`Unknown: ${unknown.join(", ")}. Known: ${PLATFORMS.map(({ name }) => name).join(", ")}`);
  process.exit(64);
}
mkdirSync(CACHE, { recursive: true });
const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, "utf8")) : {};
const wanted = values.table
  ? []
  : PLATFORMS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
for (const platform of wanted) {
  results[platform.name] = await tryOut(platform);
  const { passed, failed, reason } = results[platform.name];
  console.error(reason ?? `${passed} passed, ${failed} red`);
  if (failed > 0) process.exitCode = 1;
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
}
writeFileSync(PAGE, withTable(readFileSync(PAGE, "utf8"), tableOf(PLATFORMS, results)));
