// Builds and runs examples/nextjs with the real Next.js, and the package as it was built: one Locks for the process, run() and once() in route handlers,
// a server action, a worker thread and events through its bundler, two servers on one store, and a clean end. Then the same in development; and a
// route of the Edge runtime, which must be refused.
//
//   npm run test:next
import { execFileSync, spawn, spawnSync } from "node:child_process";
import assert from "node:assert/strict";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { connect } from "../dist/index.js";
import { startRedis } from "../build/lab/servers/redis.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(tmpdir(), "holdfast-next");
const EXAMPLE = join(ROOT, "examples/nextjs");
const PATIENCE_MS = 300_000;
/** A route that hears of leases, by subscribe() and by the channel itself. */
const EVENTS = `import { subscribe as listen } from "node:diagnostics_channel";
import { subscribe } from "holdfast";
import { locks } from "../../lib/locks";
export async function POST(): Promise<Response> {
  const heard: string[] = [];
  const hear = (): void => void heard.push("channel");
  listen("tracing:holdfast:hold:start", hear);
  const stop = subscribe("hold:start", () => heard.push("subscribe"));
  await (await locks()).run("events", async () => undefined);
  stop();
  return Response.json(heard);
}
`;
/** Connections of one Locks on Redis: one for commands, and one that listens. */
const OWN = 2;

install();
const redis = await startRedis();
const files = mkdtempSync(join(tmpdir(), "holdfast-next-files-"));
const running = [];
try {
  console.log("building …");
  const built = next(["build"]);
  assert.equal(built.status, 0, `${built.stdout}${built.stderr}`);
  for (const [what, url] of [
    ["files", `file://${files}`],
    ["Redis", redis.url],
  ]) {
    await serves(what, url);
  }
  await develops();
  await refusesEdge();
} finally {
  for (const child of running) child.kill("SIGKILL");
  await redis.stop();
  rmSync(files, { recursive: true, force: true });
}

/** Next once, by the versions of the example; the example and the package anew. */
function install() {
  const manifest = JSON.parse(readFileSync(join(EXAMPLE, "package.json"), "utf8"));
  delete manifest.dependencies.holdfast;
  // All client libraries: one that is missing would end the build of an Edge route, and that is not what is checked.
  Object.assign(manifest.dependencies, { ioredis: "^5.11.1", pg: "^8.23.1", postgres: "^3.4.9", redis: "^6.3.1" });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), JSON.stringify(manifest));
  if (!existsSync(join(FOLDER, "node_modules/redis")) || !existsSync(join(FOLDER, "node_modules/next"))) {
    console.log("installing Next …");
    execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund"], { cwd: FOLDER, stdio: "inherit" });
  }
  rmSync(join(FOLDER, "app"), { recursive: true, force: true });
  for (const part of ["app", "lib", "instrumentation.ts", "next.config.mjs", "tsconfig.json"])
    cpSync(join(EXAMPLE, part), join(FOLDER, part), { recursive: true });
  mkdirSync(join(FOLDER, "app/events"), { recursive: true });
  writeFileSync(join(FOLDER, "app/events/route.ts"), EVENTS);
  const own = join(FOLDER, "node_modules/holdfast");
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  for (const part of ["dist", "package.json"]) cpSync(join(ROOT, part), join(own, part), { recursive: true });
}

function next(args) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", HOLDFAST_URL: `file://${files}` };
  return spawnSync(process.execPath, ["node_modules/next/dist/bin/next", ...args], {
    cwd: FOLDER,
    env,
    encoding: "utf8",
    timeout: 1_800_000,
  });
}

async function start(url, mode = "start") {
  const port = await freePort();
  const child = spawn(
    process.execPath,
    ["node_modules/next/dist/bin/next", mode, "-H", "127.0.0.1", "-p", String(port)],
    {
      cwd: FOLDER,
      env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1", HOLDFAST_URL: url },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  running.push(child);
  const server = { child, url: `http://127.0.0.1:${port}`, printed: "" };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (server.printed += String(data)));
  const endMs = performance.now() + PATIENCE_MS;
  while (
    !(await fetch(server.url).then(
      (response) => response.ok,
      () => false,
    ))
  ) {
    assert.ok(performance.now() < endMs && child.exitCode === null, `it does not start:\n${server.printed}`);
    await pause(100);
  }
  return server;
}

async function serves(what, url) {
  const servers = await Promise.all([start(url), start(url)]);
  const locks = await connect(url);
  const post = (path, at = 0) => fetch(`${servers[at].url}/${path}`, { method: "POST" });

  const [a, b] = await Promise.all([post("invoices/7"), post("invoices/7", 1)]);
  const invoices = [await a.json(), await b.json()];
  assert.equal(invoices[0].fence, invoices[1].fence);
  assert.deepEqual(invoices.map(({ replayed }) => replayed).toSorted(), [false, true]);

  const held = await locks.acquire("order:8");
  const busy = await post("orders/8");
  assert.deepEqual([busy.status, busy.headers.get("retry-after")], [409, "1"]);
  await held.release();
  const order = await post("orders/8", 1);
  assert.deepEqual([order.status, (await order.json()).lost], [200, false]);

  // The action, as a form without scripts sends it.
  const page = await (await fetch(servers[0].url)).text();
  const [, action] = /name="(\$ACTION_ID_[0-9a-f]+)"/.exec(page) ?? [];
  assert.ok(action, page);
  for (const { url: to } of [servers[0], servers[1], servers[0]]) {
    const form = new FormData();
    form.set(action, "");
    form.set("order", "9");
    const response = await fetch(to, { method: "POST", body: form });
    assert.equal(response.status, 200);
  }
  const charged = servers.map(({ printed }) => printed.split("charging 9").length - 1);
  assert.equal(charged[0] + charged[1], 1, servers.map(({ printed }) => printed).join(""));

  assert.deepEqual(await (await post("events")).json(), ["channel", "subscribe"]);

  // The worker thread was found, past the bundler, and renewed it while the event loop was blocked.
  assert.equal(await (await post("blocked")).text(), "held");

  // One Locks for each process, however many bundles have it: as many connections as those of this script, for each. The thread has its own.
  if (url === redis.url) assert.equal(await connections(), 3 * OWN + 1);

  const during = post("orders/10");
  while ((await locks.inspect("order:10")).held.length === 0) await pause(10);
  servers[0].child.kill("SIGTERM");
  assert.equal((await during).status, 200, "a request that runs is answered");
  servers[1].child.kill("SIGTERM");
  for (const { child } of servers) if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  assert.deepEqual((await locks.query()).held, [], "nothing is held when they have ended");
  await locks.close();
  console.log(`ok: two servers on ${what}`);
}

/** Of all who use the Redis but of the one who asks. */
async function connections() {
  const client = new Redis(redis.url);
  const list = await client.client("LIST");
  client.disconnect();
  return list.trim().split("\n").length - 1;
}

/** Modules are evaluated again after each change: the connections stay as they were. */
async function develops() {
  const server = await start(redis.url, "dev");
  const order = async () => assert.equal((await fetch(`${server.url}/orders/1`, { method: "POST" })).status, 200);
  const invoice = async () => (await fetch(`${server.url}/invoices/99`, { method: "POST" })).json();
  await order();
  const { pid } = await invoice();
  assert.equal(await connections(), OWN);
  for (const file of ["lib/locks.ts", "app/orders/[id]/route.ts"]) {
    const path = join(FOLDER, file);
    const marker = `console.log("evaluated again: ${file}");\n`;
    writeFileSync(path, `${readFileSync(path, "utf8")}\n${marker}`);
    const endMs = performance.now() + PATIENCE_MS;
    while (!server.printed.includes(`evaluated again: ${file}`)) {
      assert.ok(performance.now() < endMs, server.printed);
      await order();
      await pause(200);
    }
  }
  assert.equal((await invoice()).pid, pid, "it is the same process");
  assert.equal(await connections(), OWN);
  server.child.kill("SIGTERM");
  if (server.child.exitCode === null && server.child.signalCode === null) await once(server.child, "exit");
  cpSync(join(EXAMPLE, "lib"), join(FOLDER, "lib"), { recursive: true });
  cpSync(join(EXAMPLE, "app"), join(FOLDER, "app"), { recursive: true });
  console.log("ok: in development, after changes");
}

async function refusesEdge() {
  mkdirSync(join(FOLDER, "app/edge"), { recursive: true });
  writeFileSync(
    join(FOLDER, "app/edge/route.ts"),
    'import { connect } from "holdfast";\nexport const runtime = "edge";\nexport async function GET() {\n  await connect("memory:");\n  return new Response("locks");\n}\n',
  );
  const { status, stdout, stderr } = next(["build"]);
  assert.notEqual(status, 0, "a route of the Edge runtime is not built");
  assert.match(`${stdout}${stderr}`, /Native module not found: node:/);
  rmSync(join(FOLDER, "app/edge"), { recursive: true });
  console.log("ok: the Edge runtime is refused when it is built");
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
