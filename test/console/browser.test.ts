/** The page in a real browser: it shows what other processes do, ends leases, keeps to itself, and can be used by all. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { file } from "../../src/backends/file/index.ts";
import { createConsole, withLogin } from "../../src/console/create.ts";
import { Login } from "../../src/console/login.ts";
import type { Lease } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { findProgram } from "../../src/lab/servers/programs.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { MAIN } from "../cli/harness.ts";
import { serve, Stage } from "./stage.ts";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const AXE = axe.source;
const PATIENCE_MS = 120_000;

let browser: Browser;

beforeAll(async () => {
  browser = await chromium.launch({ executablePath: await findProgram("chromium"), args: FLAGS });
});
afterAll(() => browser.close());

interface Seen {
  readonly page: Page;
  /** What the page complained of, and whom it asked. */
  readonly errors: string[];
  readonly asked: string[];
}

async function open(url: string, options: Parameters<Browser["newContext"]>[0] = {}): Promise<Seen> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const [errors, asked]: [string[], string[]] = [[], []];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => asked.push(request.url()));
  page.on("dialog", (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, errors, asked };
}

const row = (page: Page, name: string): ReturnType<Page["locator"]> =>
  page.locator(".rows .row:not(.group):visible", { hasText: name });

test("a lock that another process takes appears, with who waits for it, and goes", async () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-console-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const locks = createLocks(file({ dir }));
  onTestFinished(() => locks.close());
  const origin = await serve(createConsole(locks, { authorize: () => "ada" }));
  const { page, errors, asked } = await open(origin);
  await page.getByText("No lock is held or waited for").waitFor();
  const start = (): ChildProcess => {
    const child = spawn(process.execPath, [MAIN, "run", "nightly", "--", "cat"], {
      env: { ...process.env, HOLDFAST_URL: `file:${dir}` },
      stdio: ["pipe", "ignore", "ignore"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return child;
  };
  const first = start();
  const line = row(page, "nightly");
  await line.waitFor();
  expect(await line.locator(".part-host").textContent()).toMatch(/:\d+$/);
  const second = start();
  await eventually("the waiter is shown", async () =>
    (await line.locator(".part-waiting").textContent()) === "1" ? true : undefined,
  );
  first.stdin!.end();
  await eventually("the lock is handed over", async () =>
    (await line.locator(".part-waiting").textContent()) === "" ? true : undefined,
  );
  second.stdin!.end();
  await page.getByText("No lock is held or waited for").waitFor();
  for (const child of [first, second]) if (child.exitCode === null) await once(child, "exit");
  expect(errors).toEqual([]);
  // Nothing but its own server is asked for anything.
  expect(asked.filter((url) => !url.startsWith(`${origin}/`) && url !== "data:,")).toEqual([]);
});

test("a lease is ended end to end: the fence is shown, a reason is required, and who did it is kept and shown", async () => {
  const stage = await new Stage().start({ allowRelease: true, authorize: () => "ada@laptop" });
  const lease = await stage.other("web-1:812").acquire("invoice:42", {
    meta: {
      app: "shop",
      version: "1.4",
      reason: "close the month",
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    },
  });
  const waiter = stage.other("web-2:813").acquire("invoice:42");
  const { page, errors } = await open(stage.origin);
  await row(page, "invoice:42").click();
  await page.getByRole("heading", { name: "invoice:42" }).waitFor();
  await page.getByText("pid 812").waitFor();
  await page.getByText("close the month").waitFor();
  await page.getByText("4bf92f3577b34da6a3ce929d0e0e4736").waitFor();
  await page.getByRole("button", { name: "Force release …" }).click();
  const dialog = page.getByRole("dialog");
  expect(await dialog.locator("code.fence").textContent()).toBe(String(lease.fence));
  await dialog.getByRole("button", { name: "End this lease" }).click();
  await dialog.getByText("Say why").waitFor();
  lease.assertHeld();
  await dialog.getByLabel("Reason").fill("web-1 hangs since noon");
  await dialog.getByRole("button", { name: "End this lease" }).click();
  await dialog.getByText("The lease is over").waitFor();
  expect(lease.signal.reason).toMatchObject({
    loss: { kind: "forced", by: "ada@laptop", reason: "web-1 hangs since noon" },
  });
  await dialog.getByRole("button", { name: "Close" }).click();
  (await waiter).assertHeld();
  const forced = page.locator("section", { has: page.getByRole("heading", { name: "Ended by force" }) });
  await forced.getByText("web-1 hangs since noon").waitFor();
  expect(await forced.innerText()).toContain("ada@laptop");
  await page.getByText("pid 813").waitFor();
  await page.locator("svg .loss").first().waitFor();
  expect(stage.audit).toMatchObject([{ who: "ada@laptop", outcome: "done", lock: "invoice:42" }]);
  expect(errors).toEqual([]);
});

test("what is pressed or marked stays while the page goes on", async () => {
  const stage = await new Stage().start({ allowRelease: true });
  const lease = await stage.other("web:1").acquire("a");
  const { page } = await open(`${stage.origin}/#/lock/a`);
  const draws = (): Promise<number> => page.evaluate(() => performance.getEntriesByName("holdfast:draw").length);
  const drawn = async (): Promise<void> => {
    const before = await draws();
    await eventually("it is drawn twice", async () => ((await draws()) >= before + 2 ? true : undefined));
  };
  const button = page.getByRole("button", { name: "Force release …" });
  await page.locator(".timeline svg").waitFor();
  await button.hover();
  await page.mouse.down();
  await drawn();
  await page.mouse.up();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  // In one step: between the look for it and the selection, Playwright's own selectText() may meet a redraw.
  await page.evaluate('getSelection().selectAllChildren(document.querySelector(".facts code"))');
  await drawn();
  expect(await page.evaluate("String(getSelection())")).toBe(String(lease.fence));
  // And it goes on when nothing is.
  await page.evaluate("getSelection().removeAllRanges()");
  await lease.release();
  await page.getByText("Free: it is neither held nor waited for.").waitFor();
});

test("read-only, there is no button", async () => {
  const stage = await new Stage().start();
  await stage.other("web:1").acquire("a");
  const { page } = await open(`${stage.origin}/#/lock/a`);
  await page.getByText("pid 1").waitFor();
  expect(await page.getByRole("button", { name: /Force/ }).count()).toBe(0);
});

test("names, holders, metas and reasons that try to be markup, script or other text stay what they are", async () => {
  const attacks = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "javascript:alert(3)",
    "<svg/onload=alert(4)>",
    "{{constructor.constructor('alert(5)')()}}",
    "\u202Egnp.exe",
    "\u3164pay\u00a0roll\u2800",
    "x".repeat(400),
    "a\u0000b\nc",
  ];
  const stage = await new Stage().start({
    allowRelease: true,
    title: attacks[0]!,
    health: () => Promise.resolve({ findings: [{ level: "weak", text: attacks[1]! }] }),
  });
  for (const [at, text] of attacks.entries()) {
    const meta = { reason: text, app: text, version: text, [text.slice(0, 40)]: text, traceparent: text };
    const lease = await stage.other(`${text.slice(0, 100)}:${at}`).acquire(`${text}`, { meta });
    void stage
      .other(`${text.slice(0, 100)}:9${at}`)
      .acquire(`${text}`, { meta })
      .catch(() => {});
    if (at === 0) await stage.locks.forceRelease(text, { fence: lease.fence, reason: text, by: text });
  }
  const { page, errors } = await open(stage.origin);
  await eventually("all are shown", async () =>
    (await page.locator(".rows .row:visible").count()) === attacks.length ? true : undefined,
  );
  expect(await page.locator(".part-name", { hasText: "gnp.exe" }).textContent()).toBe("\\u{202e}gnp.exe");
  // Neither blank letters nor odd spaces make two names look the same.
  expect(await page.locator(".part-name", { hasText: "roll" }).textContent()).toBe("\\u{3164}pay\\u{a0}roll\\u{2800}");
  for (const text of attacks) {
    await page.evaluate(`location.hash = ${JSON.stringify(`#/lock/${encodeURIComponent(text)}`)}`);
    await page.locator(".timeline svg").waitFor();
    expect(await page.locator("main img, main script, main iframe, main [onerror], main [onload]").count()).toBe(0);
    expect(await page.locator('a[href^="javascript"]').count()).toBe(0);
  }
  await page.getByRole("button", { name: "Force release …" }).click();
  const isIn = "(document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth)";
  expect(await page.evaluate(isIn)).toBe(true);
  await page.keyboard.press("Escape");
  await page.evaluate('location.hash = "#/overview"');
  await page.locator(".findings").getByText(attacks[1]!).waitFor();
  expect(errors).toEqual([]);
});

test("a wrong token is refused and asks again; the right one leaves the address, and stays in a cookie that scripts cannot read", async () => {
  const stage = new Stage();
  const login = new Login("holdfast_console_test");
  await stage.serve(
    withLogin(
      stage.locks,
      { authorize: () => "me", hosts: ["127.0.0.1"], audit: (entry) => stage.audit.push(entry) },
      login,
    ),
  );
  const { page } = await open(`${stage.origin}/#token=wrong`);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  expect(page.url()).not.toContain("wrong");
  await page.getByText("This is not the token that was printed.").waitFor();
  const input = await page.getByLabel("Token").elementHandle();
  await page.getByLabel("Token").fill("wrong again");
  await page.getByRole("button", { name: "Log in" }).click();
  await eventually("it was refused twice", () => (stage.audit.length === 2 ? true : undefined));
  // What is typed before the answer came is not lost.
  await page.getByLabel("Token").fill(`${stage.origin}/#token=${login.token}`);
  expect(await input!.evaluate((element) => element.isConnected)).toBe(true);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".status.ok").waitFor();
  const other = await open(`${stage.origin}/#token=${login.token}`);
  await other.page.locator(".status.ok").waitFor();
  expect(other.page.url()).toBe(`${stage.origin}/#/`);
  expect(await other.page.evaluate("document.cookie")).toBe("");
  expect(other.errors).toEqual([]);
  await other.page.reload();
  await other.page.locator(".status.ok").waitFor();
});

/** What a page of another origin tries. As text: it runs in the browser. */
const EVIL = `async (origin, fence) => {
  const tried = async (options, path) => {
    try {
      return await (await fetch(origin + path, { credentials: "include", ...options })).text();
    } catch (error) {
      return "failed: " + error.name;
    }
  };
  const body = JSON.stringify({ name: "a", fence, reason: "evil" });
  const frame = document.createElement("iframe");
  frame.src = origin + "/";
  document.body.append(frame);
  await new Promise((resolve) => (frame.onload = resolve));
  let inside = "unreadable";
  try {
    inside = frame.contentDocument.body.innerText;
  } catch {}
  return [
    await tried({}, "/hello"),
    await tried({ method: "POST", body }, "/release"),
    await tried({ method: "POST", body, mode: "no-cors" }, "/release"),
    await tried({ method: "POST", body, headers: { "content-type": "application/json" } }, "/release"),
    await tried({}, "/events"),
    inside,
  ];
}`;

test("a page of another origin cannot read it, act through it, or put it into a frame", async () => {
  const stage = new Stage();
  const login = new Login("holdfast_console_test");
  await stage.serve(
    withLogin(
      stage.locks,
      { authorize: () => "me", allowRelease: true, audit: (entry) => stage.audit.push(entry) },
      login,
    ),
  );
  const lease = await stage.other("web:1").acquire("a");
  const { page } = await open(`${stage.origin}/#token=${login.token}`);
  await page.locator(".status.ok").waitFor();
  // The same site by its cookies, since ports do not count there: all that protects is ours.
  const evil = await serve((_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<title>evil</title>"),
  );
  await page.goto(evil);
  const results = await page.evaluate(`(${EVIL})(${JSON.stringify(stage.origin)}, "${lease.fence}")`);
  expect(results).toEqual([...Array.from({ length: 5 }, () => "failed: TypeError"), "unreadable"]);
  lease.assertHeld();
  expect(stage.audit.filter(({ action, outcome }) => action === "release" && outcome === "done")).toEqual([]);
});

test("under another name of the host, as after DNS rebinding, nothing is shown", async () => {
  const stage = await new Stage().start({ hosts: ["127.0.0.1", "localhost"] });
  const rebound = await chromium.launch({
    executablePath: await findProgram("chromium"),
    args: [...FLAGS, "--host-resolver-rules=MAP evil.test 127.0.0.1"],
  });
  onTestFinished(() => rebound.close());
  const page = await rebound.newPage();
  const answer = await page.goto(stage.origin.replace("127.0.0.1", "evil.test"));
  expect(answer?.status()).toBe(421);
  expect(await page.locator("body").innerText()).toContain("not served under this name");
});

/** A tab behind another, until it is looked at: headless, all tabs are seen. As text: it runs in the browser. */
const BEHIND = `Object.defineProperty(document, "hidden", { configurable: true, get: () => !globalThis.isSeen });`;

test("more tabs than a browser has connections: those that are not seen leave room, and one that is looked at is live", async () => {
  const stage = await new Stage().start();
  await stage.other("web:1").acquire("a");
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  onTestFinished(() => context.close());
  await context.addInitScript(BEHIND);
  const tabs: Page[] = [];
  for (let i = 0; i < 9; i++) {
    const tab = await context.newPage();
    await tab.goto(stage.origin);
    tabs.push(tab);
  }
  const live = async (): Promise<number> =>
    (await Promise.all(tabs.map((tab) => tab.locator(".status.ok").count()))).reduce((sum, count) => sum + count, 0);
  await eventually("a few are live", async () => ((await live()) === 3 ? true : undefined));
  const turn = async (tab: Page, isSeen: boolean): Promise<void> => {
    await tab.evaluate(`isSeen = ${isSeen}; document.dispatchEvent(new Event("visibilitychange"))`);
  };
  for (const tab of tabs) {
    await turn(tab, true);
    await tab.locator(".status.ok").waitFor();
    await row(tab, "a").click();
    await tab.getByText("pid 1").waitFor();
    await turn(tab, false);
  }
  await eventually("a few are live again", async () => ((await live()) === 3 ? true : undefined));
});

test("before the store has answered nothing is said to be zero; and who is not let in sees why", async () => {
  const stage = new Stage();
  stage.counts.backend.query = () => new Promise(() => {});
  await stage.start();
  const { page } = await open(`${stage.origin}/#/overview`);
  await page.locator(".tile").first().waitFor();
  expect(await page.locator(".tile dd").allTextContents()).toEqual(Array.from({ length: 6 }, () => "—"));
  expect(await page.locator(".status").textContent()).toBe("asking");
  await page.getByText("read-only").waitFor();
  // An app whose session is over sends its own page.
  let isLoggedOut = false;
  const console = createConsole(stage.locks, { authorize: () => "ada" });
  onTestFinished(() => console.close());
  const origin = await serve((request, response) => {
    if (isLoggedOut && request.url === "/hello") response.writeHead(302, { location: "/log-in" }).end();
    else if (request.url === "/log-in") response.writeHead(200, { "content-type": "text/html" }).end("<h1>Log in</h1>");
    else console(request, response);
  });
  isLoggedOut = true;
  const out = await open(origin);
  await out.page.getByRole("heading", { name: "No permission" }).waitFor();
  expect(await out.page.locator(".status").textContent()).toBe("no permission");
  isLoggedOut = false;
  await out.page.getByRole("button", { name: "Try again" }).click();
  await out.page.getByText("Asking the store").waitFor();
});

test("10,000 locks: few rows are there, an update takes little time, and filter, sort and groups work", async () => {
  const stage = await new Stage().start();
  const hosts = Array.from({ length: 20 }, (_, i) => stage.other(`web-${i}:${i}`));
  const take = (i: number): Promise<Lease> =>
    hosts[i % 20]!.acquire(`${["order", "invoice", "job"][i % 3]}:${String(i).padStart(5, "0")}`, {
      ttl: "30s",
      meta: { app: "shop", version: "1.0" },
    });
  const leases = await Promise.all(Array.from({ length: 10_000 }, (_, i) => take(i)));
  const { page, errors } = await open(stage.origin);
  await page.getByText("10,000 locks").waitFor();
  expect(await page.locator(".rows .row").count()).toBeLessThan(60);
  // Besides the renewals, 500 leases end and begin in each second.
  const turn = async (): Promise<void> => {
    for (let i = 0; i < 500; i++) await leases[i]!.release();
    for (let i = 0; i < 500; i++) leases[i] = await take(i);
  };
  const measure = (): Promise<{ readonly hear: number[]; readonly draw: number[] }> =>
    page.evaluate(() => {
      const of = (name: string): number[] => performance.getEntriesByName(name).map(({ duration }) => duration);
      return { hear: of("holdfast:hear"), draw: of("holdfast:draw") };
    });
  await page.evaluate(() => performance.clearMeasures());
  const { hear, draw } = await eventually("some updates were drawn", async () => {
    const before = (await measure()).draw.length;
    await turn();
    await eventually("it is drawn", async () => ((await measure()).draw.length > before ? true : undefined));
    const found = await measure();
    return found.draw.length >= 5 ? found : undefined;
  });
  const sum = (all: readonly number[]): number => all.reduce((total, ms) => total + ms, 0);
  const perUpdate = (sum(hear) + sum(draw)) / draw.length;
  console.log(
    `10,000 locks: ${perUpdate.toFixed(1)} ms of scripting per update (drawing ${(sum(draw) / draw.length).toFixed(1)} ms, at most ${Math.max(...draw).toFixed(1)} ms), ${draw.length} updates`,
  );
  await page.locator(".scroller").evaluate((element) => (element.scrollTop = 1e9));
  await row(page, "order:09999").waitFor();
  expect(await page.locator(".rows .row").count()).toBeLessThan(60);
  await page.getByLabel("Filter locks").fill("invoice: web-7");
  await eventually("it is filtered", async () =>
    /^\d{3} of 10,000 locks$/.test((await page.locator(".total").textContent()) ?? "") ? true : undefined,
  );
  await page.getByRole("button", { name: "Fence" }).click();
  await page.locator('[aria-sort="ascending"]', { hasText: "Fence" }).waitFor();
  await page.getByLabel("Filter locks").fill("");
  await page.getByRole("button", { name: "Group by prefix" }).click();
  await eventually("groups are shown", async () =>
    (await page.locator(".row.group:visible").allInnerTexts()).some((text) => /invoice:[^]*3,333 locks/.test(text))
      ? true
      : undefined,
  );
  await leases[0]!.release();
  await page.getByText("9,999 locks").waitFor();
  expect(errors).toEqual([]);
});

test("the keyboard: rows, a lock, back, and the filter", async () => {
  const stage = await new Stage().start();
  const locks = stage.other("web:1");
  for (const name of ["lock-a", "lock-b", "lock-c"]) await locks.acquire(name);
  const { page } = await open(stage.origin);
  await row(page, "lock-c").waitFor();
  await page.locator(".scroller").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  expect(await page.locator(".row.active .part-name").textContent()).toBe("lock-c");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "lock-c" }).waitFor();
  await page.keyboard.press("Escape");
  await row(page, "lock-b").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("lock-b");
  await page.getByText("1 of 3 locks").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("3 locks", { exact: true }).waitFor();
  // Also from another page, and for one who types before the next frame.
  await page.goto(`${stage.origin}/#/lock/lock-c`);
  await page.getByRole("heading", { name: "lock-c" }).waitFor();
  const focused = await page.evaluate(`
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }));
    document.activeElement.getAttribute("aria-label");
  `);
  expect(focused).toBe("Filter locks");
  await page.keyboard.type("lock-b");
  await page.getByText("1 of 3 locks").waitFor();
});

test("the states: store down, connection lost, no permission, no room, nothing found", async () => {
  const stage = new Stage();
  let isAllowed = true;
  const page = createConsole(stage.locks, { authorize: () => (isAllowed ? "ada" : null), maxViewers: 1 });
  let isCut = false;
  await stage.serve((request, response) => (isCut ? void response.destroy() : page(request, response)));
  await stage.other("web:1").acquire("a");
  const seen = await open(stage.origin);
  await row(seen.page, "a").waitFor();
  stage.counts.failure = new Error("the cable is out");
  await seen.page.getByText("The store does not answer: ").waitFor();
  await seen.page.locator(".status.bad").waitFor();
  // What was known stays there, and is said to be old.
  expect(await row(seen.page, "a").count()).toBe(1);
  stage.counts.failure = undefined;
  await seen.page.locator(".status.ok").waitFor();
  await seen.page.getByLabel("Filter locks").fill("nothing like it");
  await seen.page.getByText("No lock matches").waitFor();
  await seen.page.getByLabel("Filter locks").fill("");
  const second = await open(stage.origin);
  await second.page.getByText("Too many viewers").waitFor();
  isCut = true;
  page.close();
  await seen.page.getByText("The connection to the console is lost").waitFor();
  isCut = false;
  isAllowed = false;
  const denied = createConsole(stage.locks, { authorize: () => null });
  const origin = await serve(denied);
  const third = await open(origin);
  await third.page.getByRole("heading", { name: "No permission" }).waitFor();
});

test.each(["light", "dark"] as const)("axe finds nothing wrong, %s, in no view and no state", async (colorScheme) => {
  const stage = await new Stage().start({
    allowRelease: true,
    health: () =>
      Promise.resolve({
        findings: [
          { level: "good", text: "fine" },
          { level: "weak", text: "not so fine" },
          { level: "broken", text: "not fine" },
        ],
      }),
  });
  const [one, two] = [stage.other("web-1:1"), stage.other("web-2:2")];
  await one.acquire("nightly", { meta: { app: "shop", version: "1", reason: "report" } });
  void two.acquire("nightly").catch(() => {});
  await one.acquire("short", { renew: false, ttl: "1h" });
  const isHeld = (name: string): Promise<unknown> =>
    eventually(`${name} is held`, async () => ((await stage.locks.isHeld(name)) ? true : undefined));
  void one.run("a", async () => (await isHeld("b"), await one.run("b", () => {}))).catch(() => {});
  void two.run("b", async () => (await isHeld("a"), await two.run("a", () => {}))).catch(() => {});
  const { page } = await open(stage.origin, { colorScheme, bypassCSP: true });
  const judge = async (view: string): Promise<void> => {
    await page.evaluate(AXE);
    const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as {
      violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
    };
    expect(
      found.violations.map(({ id, nodes }) => `${view}: ${id}: ${nodes[0]?.html}: ${nodes[0]?.failureSummary}`),
    ).toEqual([]);
  };
  await page.locator(".chip", { hasText: "deadlock" }).first().waitFor();
  await judge("locks");
  await page.getByRole("button", { name: "Group by prefix" }).click();
  await judge("groups");
  await page.getByLabel("Filter locks").fill("nothing like it");
  await page.getByText("No lock matches").waitFor();
  await judge("nothing found");
  await page.evaluate('location.hash = "#/overview"');
  await page.getByText("not so fine").waitFor();
  await judge("overview");
  await page.evaluate('location.hash = "#/lock/a"');
  await page.locator(".graph svg").waitFor();
  await judge("a lock");
  await page.setViewportSize({ width: 360, height: 700 });
  await judge("a lock, narrow");
  expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  await page.getByRole("button", { name: "Force release …" }).first().click();
  await page.getByRole("dialog").waitFor();
  await judge("release");
  await page.keyboard.press("Escape");
  await page.evaluate('location.hash = "#/"');
  await page.getByText("No lock matches").waitFor();
  await page.getByLabel("Filter locks").fill("");
  await row(page, "nightly").waitFor();
  await judge("locks, narrow");
  stage.counts.failure = new Error("down");
  await page.locator(".banner").waitFor();
  await judge("store down");
});
