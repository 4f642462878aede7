import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Happening, LabEvent } from "../../src/lab/events.ts";
import { judge } from "../../src/lab/judge.ts";
import type { Verdict } from "../../src/lab/judge.ts";
import { writePage } from "../../src/lab/report/page.ts";
import { scenarios } from "../../src/lab/scenarios/all.ts";
import { findProgram } from "../../src/lab/servers/programs.ts";
import type { StageName } from "../../src/lab/stage.ts";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let browser: Browser;
let folder: string;
let file: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-report-"));
  file = join(folder, "report.html");
  const verdicts = [paused("redis", 1), paused("quorum", 3), paused("zookeeper", 1)];
  writeFileSync(file, writePage(verdicts, { date: "today", command: 'holdfast lab run "<b>"' }));
  browser = await chromium.launch({ executablePath: await findProgram("chromium"), args: FLAGS });
});
afterAll(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

/** A play as the lab records it, with names that a page must not take for HTML. */
function paused(backend: StageName, observers: number): Verdict {
  const scenario = scenarios.find(({ id }) => id === "pause");
  if (scenario === undefined) throw new Error("no scenario pause");
  const lanes = Array.from({ length: observers }, (_, i) => `redis <${i + 1}>`);
  const write = (by: string, fence: bigint, register: "plain" | "guarded", accepted: boolean): Happening => ({
    kind: "write",
    register,
    by,
    fence,
    accepted,
    read: 0,
    value: 1,
  });
  const happened: readonly (readonly [number, string, Happening])[] = [
    [0, "A", { kind: "asked" }],
    [10, "A", { kind: "granted", fence: 1794737714112785n, untilMs: 1200 }],
    ...lanes.map((lane) => [20, lane, { kind: "truth", holders: ["A"] }] as const),
    [200, "A", { kind: "fault", sign: "pause", text: "process stopped" }],
    [1250, "B", { kind: "granted", fence: 1794737714112848n, untilMs: 2400 }],
    ...lanes.map((lane) => [1260, lane, { kind: "truth", holders: ["B"] }] as const),
    [1400, "counter", write("B", 1794737714112848n, "plain", true)],
    [1401, "counter", write("B", 1794737714112848n, "guarded", true)],
    [1500, "B", { kind: "releasing" }],
    [1510, "B", { kind: "released", result: "released" }],
    ...lanes.map((lane) => [1520, lane, { kind: "truth", holders: [] }] as const),
    [1600, "A", { kind: "fault", sign: "resume", text: "process continues" }],
    [1601, "A", { kind: "lost", reason: "time" }],
    [1620, "counter", write("A", 1794737714112785n, "plain", true)],
    [1621, "counter", write("A", 1794737714112785n, "guarded", false)],
  ];
  return judge({
    scenario,
    stage: { backend, observers: lanes },
    library: "holdfast",
    ttlMs: 1200,
    events: happened.map(([atMs, lane, happening]): LabEvent => ({ ...happening, atMs, lane })),
    startMs: 0,
    endMs: 1800,
    surprises: [],
    leaks: [],
    values: { plain: 1, guarded: 1 },
  });
}

async function open(width: number, colorScheme: "light" | "dark"): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 1000 }, colorScheme });
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(`file://${file}`);
  expect(asked).toEqual([`file://${file}`]);
  await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
  return page;
}

for (const width of [1280, 390]) {
  for (const scheme of ["light", "dark"] as const) {
    test(`the report fits ${width} px and is readable in ${scheme}`, async () => {
      const page = await open(width, scheme);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
      const pictures = page.locator("section svg[role=img]:visible");
      expect(await pictures.count()).toBe(3);
      const drawn = await pictures.first().boundingBox();
      expect(drawn?.width).toBeGreaterThan(width * 0.8);
      // Text in a picture that is scaled down would be smaller than it says.
      const scale = (await page.evaluate(
        "(() => { const one = [...document.querySelectorAll('section svg[role=img]')].find((svg) => svg.getBoundingClientRect().width > 0); return one.getBoundingClientRect().width / one.viewBox.baseVal.width; })()",
      )) as number;
      expect(scale).toBeGreaterThan(0.9);
      expect(await contrast(page)).toBeGreaterThan(4.5);
      await page.close();
    });
  }
}

test("the picture has a lane for every client and store, bars for belief and truth, and a mark for every moment", async () => {
  const page = await open(1280, "light");
  const quorum = page.locator("section svg.wide[role=img]").nth(1);
  // Two clients, three members, two registers.
  expect(await quorum.locator(".lane").count()).toBe(7);
  expect(await quorum.locator("rect.belief").count()).toBeGreaterThanOrEqual(2);
  expect(await quorum.locator("rect.truth").count()).toBe(6);
  expect(await quorum.locator("rect.sleep").count()).toBe(1);
  for (const mark of ["grant", "fault", "lost", "accepted", "stale", "refused"]) {
    expect(await quorum.locator(`.mark.${mark}`).count(), mark).toBeGreaterThan(0);
  }
  const listed = await page.locator("section ol.moments").first().locator("li").count();
  expect(await page.locator("section svg.wide[role=img]").first().locator(".mark").count()).toBe(listed);
  await page.close();
});

test("nothing that a store or a person named becomes HTML", async () => {
  const page = await open(1280, "light");
  expect(await page.locator("body b").count()).toBe(0);
  expect(await page.locator("text=redis <1>").count()).toBeGreaterThan(0);
  await page.close();
});

/** Of the running text on the page, as WCAG counts it. */
async function contrast(page: Page): Promise<number> {
  return (await page.evaluate(`(() => {
    const light = (text) => {
      const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
        const c = Number(part) / 255;
        return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const card = light(getComputedStyle(document.querySelector('section.card')).backgroundColor);
    const worst = [...document.querySelectorAll('section p, section li span, section h2')].map((one) => {
      const ink = light(getComputedStyle(one).color);
      if (getComputedStyle(one).backgroundColor !== 'rgba(0, 0, 0, 0)') return 21;
      return (Math.max(ink, card) + 0.05) / (Math.min(ink, card) + 0.05);
    });
    return Math.min(...worst);
  })()`)) as number;
}
