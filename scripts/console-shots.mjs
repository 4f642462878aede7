// Writes the pictures of the console that the documentation shows: npm run console:shots. Needs chromium, and dist/.
//
// What is on them is real: locks of several callers in one Redis, one of them in a deadlock, some waited for, one ended by force. The
// figures are this machine's, and what is said of the store is what `holdfast doctor` finds.
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { connect } from "../build/index.js";
import { examineRedis } from "../build/cli/doctor/redis.js";
import { createConsole } from "../build/console/index.js";
import { findProgram } from "../build/lab/servers/programs.js";
import { startRedis } from "../build/lab/servers/redis.js";

const OUT = process.argv[2] ?? fileURLToPath(new URL("../docs/img", import.meta.url));
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const store = await startRedis({ args: ["--appendonly", "yes"] });
const { url: storeUrl } = store;
const opened = [];
const locksOf = async (holder) => {
  const locks = await connect(storeUrl, { holder, wait: Infinity });
  opened.push(locks);
  return locks;
};
const forEver = () => new Promise(() => {});
const ignore = () => {};

/** Callers of a shop: a few busy locks, and many quiet ones. */
async function play() {
  const holders = ["web-1:812", "web-2:840", "web-3:77", "worker-1:3301", "worker-2:3318", "cron-1:19"];
  const hosts = await Promise.all(
    holders.map(async (holder) => ({
      holder,
      locks: await locksOf(holder),
      meta: {
        app: holder.startsWith("web") ? "shop" : "jobs",
        version: holder.startsWith("web") ? "4.12.0" : "2.3.1",
      },
    })),
  );
  const at = (index) => hosts[index % hosts.length];
  for (let i = 0; i < 26; i++) {
    const { locks, meta } = at(i);
    await locks.acquire(`order:${58_200 + i * 7}`, {
      meta: { ...meta, reason: i % 2 ? "capture payment" : "ship" },
      ttl: ["30s", "20s", "45s"][i % 3],
    });
  }
  for (let i = 0; i < 7; i++)
    await at(i).locks.acquire(`inventory/sku-${4410 + i}`, { mode: "shared", meta: at(i).meta });
  for (let i = 0; i < 3; i++)
    await at(i + 3).locks.acquire("gateway:stripe", { limit: 4, meta: { ...at(i + 3).meta, reason: "charge" } });
  await at(5).locks.acquire("report:nightly", {
    meta: {
      ...at(5).meta,
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      reason: "close the month",
    },
    ttl: "60s",
  });
  for (const i of [0, 1, 2, 3])
    at(i)
      .locks.acquire("report:nightly", { meta: at(i).meta })
      .catch(ignore);
  const stuck = await at(4).locks.acquire("export:daily", { meta: at(4).meta });
  await at(0).locks.forceRelease("export:daily", {
    fence: stuck.fence,
    reason: "worker-2 hangs since the deploy",
    by: "ada@laptop",
  });
  // Two callers that wait for each other.
  const both = (locks, first, second) =>
    locks.run(first, async () => (await sleep(300), await locks.run(second, forEver))).catch(ignore);
  void both(at(1).locks, "account:17", "account:42");
  void both(at(2).locks, "account:42", "account:17");
  await at(3).locks.once("invoice:2026-10", { keep: "1h" }, () => ({ total: 4711 }));
  // One that changes hands.
  const turn = async ({ locks, meta }) => {
    for (;;) await locks.run("queue:mails", { meta }, () => sleep(2500 + Math.random() * 3500));
  };
  for (const i of [0, 2, 4]) void turn(at(i)).catch(ignore);
}

const operator = await locksOf("console:1");
await play();
const health = async () => ({
  findings: (await examineRedis({ url: storeUrl, selfTest: false, init: false, say: ignore })).findings,
});
const authorize = () => "ada@laptop";
const page = createConsole(operator, {
  authorize,
  allowRelease: true,
  title: `redis://127.0.0.1:${store.port}`,
  health,
  audit: ignore,
  traceUrl: "https://traces.example/trace/{traceId}",
});
const server = createServer(page).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launch({ executablePath: await findProgram("chromium"), args: FLAGS });
mkdirSync(OUT, { recursive: true });

async function shoot(name, hash, { colorScheme = "light", width = 1280, height = 760, afterMs = 1500, act } = {}) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height } });
  const tab = await context.newPage();
  await tab.goto(url + hash);
  await tab.waitForSelector(".status.ok");
  await sleep(afterMs);
  await act?.(tab);
  const path = join(OUT, `${name}.png`);
  await tab.screenshot({ path });
  await context.close();
  console.log(`${path} ${readFileSync(path).length} bytes`);
}

try {
  // Leave one page open, so that there is a past to show.
  const watching = await browser.newPage();
  await watching.goto(url);
  await sleep(Number(process.argv[3] ?? 45_000));
  await shoot("console-locks", "#/", { height: 660 });
  await shoot("console-locks-dark", "#/", {
    colorScheme: "dark",
    act: (tab) => tab.getByRole("button", { name: "Group by prefix" }).click(),
  });
  await shoot("console-lock", "#/lock/queue%3Amails", { height: 900 });
  await shoot("console-deadlock-dark", "#/lock/account%3A17", { colorScheme: "dark", height: 1000 });
  await shoot("console-overview", "#/overview", { height: 900 });
  await shoot("console-overview-dark", "#/overview", { height: 900, colorScheme: "dark" });
  await shoot("console-narrow", "#/", { width: 380, height: 720 });
  await shoot("console-release", "#/lock/report%3Anightly", {
    act: (tab) => tab.getByRole("button", { name: "Force release …" }).click(),
  });
} finally {
  await browser.close();
  page.close();
  server.close();
  server.closeAllConnections();
  await Promise.all(opened.map((locks) => locks.close({ grace: 0, force: true }).catch(ignore)));
  await store.stop();
}
process.exit();
