// Records the two pictures of the README that come from a terminal: npm run readme:shots. Needs tmux, chromium, redis-server and dist/.
//
// `top.svg` is `holdfast top` in a real terminal beside real callers, one screen a second. `lab-report.png` is the page that
// `holdfast lab run` wrote about a play of that minute. Nothing on them is made up.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { connect } from "../dist/index.js";
import { findProgram } from "../build/lab/servers/programs.js";
import { startRedis } from "../build/lab/servers/redis.js";

const MAIN = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const OUT = fileURLToPath(new URL("../docs/img", import.meta.url));
const BYTES_MAX = 150_000;
const COLUMNS = 108;
const ROWS = 15;
const FRAMES = 8;
const folder = mkdtempSync(join(tmpdir(), "holdfast-shots-"));

/** What a terminal shows, in pixels: a cell, and the margin around all of them. */
const CELL = { width: 8.4, height: 19, margin: 18 };
const ESCAPE = "\u001b[";
const PARTS = new RegExp(String.raw`(\u001b\[[\d;]*m|\n)`);
const COLOURS = { 31: "#ff8080", 33: "#f2cc60" };

function keep(name, content) {
  const path = join(OUT, name);
  if (content.length > BYTES_MAX) throw new Error(`${name} has ${content.length} bytes`);
  writeFileSync(path, content);
  console.log(`${path} ${content.length} bytes`);
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** A screen with its escape sequences, as runs of cells that look alike. A style goes on until the next one, also over lines. */
function runsOf(screen) {
  const runs = [];
  let row = 0;
  let column = 0;
  let style = {};
  for (const part of screen.split(PARTS)) {
    if (part === "\n") {
      row++;
      column = 0;
      continue;
    }
    const codes = part.startsWith(ESCAPE) ? part.slice(ESCAPE.length, -1) : undefined;
    if (codes === undefined) {
      if (part !== "") runs.push({ row, column, text: part, ...style });
      column += part.length;
      continue;
    }
    for (const code of codes.split(";").map(Number)) {
      if (code === 0) style = {};
      else if (code === 1) style = { ...style, bold: true };
      else if (code === 7) style = { ...style, inverse: true };
      else if (code === 39) style = { ...style, colour: undefined };
      else if (code in COLOURS) style = { ...style, colour: COLOURS[code] };
    }
  }
  return runs;
}

/** Words stand where their cells are, whatever the width of the reader's font. */
function drawn({ row, column, text, bold, inverse, colour }) {
  const at = (cells) => (CELL.margin + cells * CELL.width).toFixed(1);
  const top = CELL.margin + row * CELL.height;
  const block = inverse
    ? `<rect x="${at(column)}" y="${top}" width="${(text.length * CELL.width).toFixed(1)}" height="${CELL.height}" fill="#c9d1d9"/>`
    : "";
  const fill = inverse ? "#0d1117" : (colour ?? "#e6edf3");
  const words = [...text.matchAll(/\S+(?: \S+)*/g)].map(
    ({ 0: word, index }) =>
      `<text x="${at(column + index)}" y="${(top + 14).toFixed(1)}" textLength="${(word.length * CELL.width).toFixed(1)}" ` +
      `lengthAdjust="spacingAndGlyphs"${bold ? ' font-weight="600"' : ""} fill="${fill}">${escaped(word)}</text>`,
  );
  return block + words.join("");
}

/** The screens one after the other, a second each; for readers who want no motion, the last one. */
function recording(screens) {
  const width = Math.ceil(COLUMNS * CELL.width + 2 * CELL.margin);
  const height = ROWS * CELL.height + 2 * CELL.margin;
  const share = (100 / screens.length).toFixed(3);
  const frames = screens.map((screen, at) => {
    const body = runsOf(screen).map(drawn).join("\n");
    return `<g class="frame" style="animation-delay: ${at}s">\n${body}\n</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="holdfast top: a live table of locks">
<style>
  text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
  .frame { visibility: hidden; animation: turn ${screens.length}s step-end infinite; }
  @keyframes turn { 0% { visibility: visible; } ${share}% { visibility: hidden; } }
  @media (prefers-reduced-motion: reduce) { .frame { animation: none; } .frame:last-of-type { visibility: visible; } }
</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
${frames.join("\n")}
</svg>
`;
}

/** Callers of a shop, until their locks are closed. */
async function play(url) {
  const hosts = await Promise.all(
    ["web-1:812", "web-2:840", "web-3:77", "jobs-1:3301", "jobs-2:3318"].map((holder) =>
      connect(url, { holder, wait: Infinity }),
    ),
  );
  const ignore = () => {};
  const turns = async (locks, name, options, ms) => {
    for (;;) await locks.run(name, options, () => sleep(ms * (0.6 + Math.random() * 0.8)));
  };
  const [web1, web2, web3, jobs1, jobs2] = hosts;
  await jobs1.acquire("report:nightly", { ttl: "60s" });
  await web3.acquire("order:58213", { ttl: "10s", renew: false });
  for (const locks of [web1, web2, web3]) void turns(locks, "invoice:42", {}, 1800).catch(ignore);
  for (const locks of [jobs1, jobs2, web1]) void turns(locks, "gateway:mail", { limit: 2 }, 2500).catch(ignore);
  for (const locks of [web2, web3]) void turns(locks, "catalog", { mode: "shared" }, 3000).catch(ignore);
  void turns(jobs2, "import:customers", { ttl: "20s" }, 6000).catch(ignore);
  return () => Promise.all(hosts.map((locks) => locks.close({ grace: 0, force: true }).catch(ignore)));
}

async function recordTop() {
  const store = await startRedis();
  const stop = await play(store.url);
  const tmux = (...args) => execFileSync("tmux", ["-S", join(folder, "tmux"), ...args], { encoding: "utf8" });
  const size = ["-x", String(COLUMNS), "-y", String(ROWS)];
  const command = `${process.execPath} ${MAIN} top --every 200ms`;
  tmux("-f", "/dev/null", "new-session", "-d", ...size, "-e", `HOLDFAST_URL=${store.url}`, command);
  try {
    await sleep(3000);
    const screens = [];
    for (let at = 0; at < FRAMES; at++) {
      screens.push(tmux("capture-pane", "-p", "-e"));
      await sleep(1000);
    }
    keep("top.svg", recording(screens));
  } finally {
    tmux("kill-server");
    await stop();
    await store.stop();
  }
}

async function shootReport() {
  const page = join(folder, "report.html");
  execFileSync(process.execPath, [MAIN, "lab", "run", "pause", "--backend", "redis", "--report", page], {
    stdio: "inherit",
  });
  const executablePath = await findProgram("chromium");
  const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
  try {
    const context = await browser.newContext({ colorScheme: "light", viewport: { width: 1120, height: 900 } });
    const tab = await context.newPage();
    await tab.goto(pathToFileURL(page).href);
    const path = join(folder, "report.png");
    await tab.locator("#pause").screenshot({ path });
    keep("lab-report.png", readFileSync(path));
  } finally {
    await browser.close();
  }
}

try {
  await recordTop();
  await shootReport();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
