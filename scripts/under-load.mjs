// Runs test files repeatedly beside busy loops: a test that fails here waits for a time instead of for a condition.
//
//   npm run test:loaded -- test/backends/file/kills.test.ts test/core/thread.test.ts
//   … --times 20            how often (20)
//   … --loops 3             busy loops beside it (3)
//   … --name "S61"          only tests whose name matches
//   … --keep-going          after the first failure too
//
// Exit code 1: a test failed.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { argumentsOf } from "./arguments.mjs";

const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: {
    times: { type: "string", default: "20" },
    loops: { type: "string", default: "3" },
    name: { type: "string" },
    "keep-going": { type: "boolean", default: false },
  },
});
if (positionals.length === 0)
  throw new TypeError("Expected test files, as in: npm run test:loaded -- test/core/thread.test.ts");
const whole = (option) => {
  if (!/^\d+$/.test(values[option]))
    throw new TypeError(`Expected --${option} to be a whole number, got ${values[option]}`);
  return Number(values[option]);
};
const [times, loops] = [whole("times"), whole("loops")];
const root = fileURLToPath(new URL("..", import.meta.url));
const place = mkdtempSync(join(tmpdir(), "holdfast-loaded-"));

const busy = Array.from({ length: loops }, () => spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
process.once("exit", () => {
  for (const loop of busy) loop.kill("SIGKILL");
  rmSync(place, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

/** Runs the files once. Returns the names of the tests that failed, with their messages. */
async function runOnce() {
  const report = join(place, "report.json");
  rmSync(report, { force: true });
  const args = [
    "run",
    "--reporter=json",
    `--outputFile=${report}`,
    ...(values.name === undefined ? [] : ["-t", values.name]),
  ];
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const child = spawn(process.execPath, [vitest, ...args, ...positionals], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  const { testResults, numPassedTests } = JSON.parse(readFileSync(report, "utf8"));
  if (numPassedTests === 0 && code === 0) throw new Error("No test has that name");
  const failed = testResults.flatMap(({ name, message, status, assertionResults }) => {
    const tests = assertionResults.filter((test) => test.status === "failed");
    const where = relative(root, name);
    if (tests.length === 0 && status === "failed") return [`${where}: ${message}`];
    return tests.map(
      ({ fullName, failureMessages }) => `${where}: ${fullName}\n    ${failureMessages[0]?.split("\n")[0]}`,
    );
  });
  if (failed.length === 0 && code !== 0) failed.push(`vitest ended with ${code}`);
  return failed;
}

const failures = new Map();
let runs = 0;
while (runs < times && (failures.size === 0 || values["keep-going"])) {
  const startedMs = performance.now();
  const failed = await runOnce();
  runs++;
  for (const name of failed) failures.set(name, (failures.get(name) ?? 0) + 1);
  console.log(
    `${runs}/${times} ${failed.length === 0 ? "green" : "RED"} ${((performance.now() - startedMs) / 1000).toFixed(0)} s`,
  );
  for (const name of failed) console.log(`  ${name}`);
}
console.log(
  `${runs} runs beside ${loops} busy loops: ${failures.size === 0 ? "all green" : `${failures.size} different failures`}`,
);
for (const [name, count] of failures) console.log(`  ${count}× ${name}`);
if (failures.size > 0) process.exitCode = 1;
// The loops end with the process.
process.exit();
