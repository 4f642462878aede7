/**
 * Walks the built site in Chromium as a reader does: the home page, a search, a recipe, an error's page by the address that the error names,
 * the API reference, the Chinese page; wide and narrow, light and dark; and then every page there is, on a telephone. It fails where a page
 * is missing, throws in the browser, or is wider than its window. Pictures go to site/shots (or to the folder that is given): look at them.
 *
 *   npm run docs:check            # builds the site first
 *   npm run docs:check -- --built # takes the one that is there
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";
import { helpFor } from "../build/contract/help.js";
import { findProgram } from "../build/lab/servers/programs.js";

const SITE = import.meta.dirname;
const OUT = join(SITE, "dist");
const args = process.argv.slice(2);
const SHOTS = args.find((one) => !one.startsWith("--")) ?? join(SITE, "shots");
const BASE = "/holdfast/";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".json": "application/json",
  ".woff2": "font/woff2",
};

/** As a host of static pages does it: `/errors/X` is errors/X.html, and what is missing is 404.html. */
function serve(request, response) {
  const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
  const inside = path.startsWith(BASE) ? normalize(join(OUT, path.slice(BASE.length))) : "";
  const file = [inside, `${inside}.html`, join(inside, "index.html")].find(
    (one) => one.startsWith(OUT) && extname(one) !== "" && existsSync(one),
  );
  response.writeHead(file === undefined ? 404 : 200, {
    "content-type": TYPES[extname(file ?? ".html")] ?? "application/octet-stream",
  });
  response.end(readFileSync(file ?? join(OUT, "404.html")));
}

/** Without a font for them, Chinese pages are boxes on the pictures, and the walk does not see that. */
function hasChineseFont() {
  const { stdout } = spawnSync("fc-list", [":lang=zh-cn"], { encoding: "utf8" });
  return stdout !== null && stdout.trim() !== "";
}

const faults = [];
const fail = (where, what) => faults.push(`${where}: ${what}`);

const tabs = new Map();

/** One tab for each kind of window. Whatever the browser complains about is a fault. */
async function tabFor(browser, width, height, colorScheme) {
  const kind = `${width} ${height} ${colorScheme}`;
  if (!tabs.has(kind)) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const tab = await context.newPage();
    tab.on("pageerror", (error) => fail(tab.url(), error.message));
    tab.on("console", (message) => message.type() === "error" && fail(tab.url(), message.text()));
    tab.on("response", (answer) => answer.status() >= 400 && fail(tab.url(), `${answer.status()} ${answer.url()}`));
    tabs.set(kind, tab);
  }
  return tabs.get(kind);
}

async function visit(browser, origin, path, { name, width = 1280, height = 860, colorScheme = "light", act } = {}) {
  const tab = await tabFor(browser, width, height, colorScheme);
  try {
    await tab.goto(origin + BASE + path);
    await act?.(tab);
    const wider = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wider > 0) fail(`${path} at ${width}`, `the page is ${wider} pixels wider than its window`);
    await tab.screenshot({ path: join(SHOTS, `${name}.png`) });
  } catch (error) {
    fail(path, error.message);
    await tab.screenshot({ path: join(SHOTS, `${name}.png`) });
  }
}

async function expectText(tab, selector, text) {
  await tab.locator(selector).filter({ hasText: text }).first().waitFor({ timeout: 20_000 });
}

const heading = (text) => (tab) => expectText(tab, "h1", text);

async function search(tab, words, found) {
  // Until the page is alive, a click does nothing: so again, until the box is there.
  const box = tab.locator("input.search-input");
  for (let tries = 0; tries < 50 && !(await box.isVisible()); tries++) {
    await tab.locator("#local-search button").first().click();
    await box.waitFor({ timeout: 1_000 }).catch(() => {});
  }
  await box.fill(words);
  await expectText(tab, ".VPLocalSearchBox .results", found);
}

async function walk(browser, origin) {
  const at = (path, options) => visit(browser, origin, path, options);
  const errorPage = new URL(helpFor("ERR_LOCK_TIMEOUT")).pathname.slice(BASE.length);
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, width, height] of [
      ["wide", 1280, 860],
      ["narrow", 360, 740],
    ]) {
      const look = (page) => ({ name: `${page}-${size}-${colorScheme}`, width, height, colorScheme });
      await at("", { ...look("home"), act: heading("Holdfast") });
      await at("choose", { ...look("choose"), act: heading("Choose a backend") });
      await at("recipes/payments", { ...look("recipe"), act: heading("Payments and guards") });
      await at(errorPage, { ...look("error"), act: heading("ERR_LOCK_TIMEOUT") });
    }
  }
  await at("start", {
    name: "search",
    act: async (tab) => {
      await search(tab, "ERR_LOCK_LOST", "ERR_LOCK_LOST");
      await tab.screenshot({ path: join(SHOTS, "search-open.png") });
      await tab.keyboard.press("Enter");
      await tab.waitForURL("**/errors/ERR_LOCK_LOST**");
      await heading("ERR_LOCK_LOST")(tab);
    },
  });
  await at("start", {
    name: "search-recipe-narrow",
    width: 360,
    height: 740,
    act: async (tab) => {
      await search(tab, "double submit", "Double submit");
    },
  });
  await at("recipes/", {
    name: "recipe-by-hand",
    act: async (tab) => {
      await tab.locator(".vp-doc a", { hasText: "Cron on many machines" }).click();
      await heading("Cron on many machines")(tab);
    },
  });
  await at("concepts#re-entry", { name: "anchor", act: (tab) => tab.locator("#re-entry").waitFor() });
  await at("api/holdfast", { name: "api", act: heading("holdfast") });
  await at("api/holdfast/redis", { name: "api-redis-dark", colorScheme: "dark", act: heading("holdfast/redis") });
  await at("choose", {
    name: "other-language",
    act: async (tab) => {
      await tab.locator(".VPNavBarTranslations button").hover();
      await tab.locator(".VPNavBarTranslations a", { hasText: "简体中文" }).click();
      await tab.locator("html[lang=zh-CN]").waitFor();
      await tab.waitForURL("**/zh/**");
    },
  });
  await at("zh/story", { name: "zh", act: heading("从文章到代码") });
  await at("zh/story", {
    name: "zh-search",
    act: (tab) => search(tab, "看门狗", "看门狗"),
  });
  await at("decisions/", { name: "decisions", act: heading("Decisions") });
  await at("benchmarks", {
    name: "benchmarks-narrow-dark",
    width: 360,
    height: 740,
    colorScheme: "dark",
    act: heading("Benchmarks"),
  });
  await at("console", { name: "console", act: heading("console") });
}

/** Every page there is, on a telephone: none is wider than its window, and each picture is there and says what it shows. */
async function everyPage(browser, origin) {
  const tab = await tabFor(browser, 360, 740, "light");
  const pages = readdirSync(OUT, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".html"));
  for (const page of pages) {
    await tab.goto(`${origin}${BASE}${page}`, { waitUntil: "domcontentloaded" });
    const { wider, silent } = await tab.evaluate(() => ({
      wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      silent: [...document.images].filter((image) => !image.hasAttribute("alt")).map(({ src }) => src),
    }));
    if (wider > 0) fail(page, `the page is ${wider} pixels wider than a telephone`);
    for (const picture of silent) fail(page, `${picture} does not say what it shows`);
  }
  return pages.length;
}

if (!args.includes("--built")) {
  const { status } = spawnSync(process.execPath, [join(SITE, "build.mjs")], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
mkdirSync(SHOTS, { recursive: true });
const server = createServer(serve).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const browser = await chromium.launch({ executablePath: await findProgram("chromium"), args: FLAGS });
try {
  const origin = `http://127.0.0.1:${server.address().port}`;
  await walk(browser, origin);
  console.log(`${await everyPage(browser, origin)} pages fit on a telephone`);
} finally {
  await browser.close();
  server.close();
}
for (const fault of faults) console.error(fault);
if (!hasChineseFont())
  console.log("No font here has Chinese letters: install one (fonts-wqy-microhei) before you look at those pictures.");
console.log(faults.length === 0 ? `the site is as it should be; pictures are in ${SHOTS}` : `${faults.length} faults`);
process.exitCode = faults.length === 0 ? 0 : 1;
