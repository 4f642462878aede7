/** closeOnSignals(): a process that is asked to stop closes its locks, and then ends by the signal. Real processes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { closeOnSignals } from "../../src/core/close-on-signals.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { DIST } from "../dist.ts";

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the script, and sends it a signal each time that it prints a line that begins with "ready". */
async function ended(body: string, sent: readonly NodeJS.Signals[] = ["SIGTERM"]): Promise<Ended> {
  const text = `import { closeOnSignals, createLocks } from "${DIST}/index.js";
    import { memory } from "${DIST}/backends/memory/index.js";
    const locks = createLocks(memory());
    const until = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
    setInterval(() => {}, 1000);
    ${body}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], { stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (data: Buffer) => (stdout += String(data)));
  child.stderr.on("data", (data: Buffer) => (stderr += String(data)));
  const closed = once(child, "close");
  for (const [at, signal] of sent.entries()) {
    await eventually("it is ready", () => (stdout.match(/^ready/gmu) ?? []).length > at || undefined);
    child.kill(signal);
  }
  const [code, signal] = (await closed) as [number | null, NodeJS.Signals | null];
  return { code, signal, stdout, stderr };
}

test.each(["SIGTERM", "SIGINT"] as const)(
  "%s: the work is asked to stop, its lease is released, and the process ends by it",
  async (signal) => {
    const body = `closeOnSignals(locks);
    const running = locks.run("a", async (lease) => {
      console.log("ready");
      await until(lease.signal);
      console.log("stopped", lease.remaining() > 0);
    });
    await running;
    console.log("released", (await locks.acquire("b").catch((error) => error.code)));`;
    const result = await ended(body, [signal]);
    expect(result.stdout).toBe("ready\nstopped true\nreleased ERR_LOCK_CLOSED\n");
    expect(result).toMatchObject({ code: null, signal });
  },
);

test("work that does not stop keeps its lease: after the grace the process ends, and says so", async () => {
  const body = `const backend = memory();
    const { release } = backend;
    backend.release = (...args) => { console.log("released"); return release.apply(backend, args); };
    const mine = createLocks(backend);
    closeOnSignals(mine, { grace: 50 });
    void mine.run("a", () => { console.log("ready"); return new Promise(() => {}); });`;
  const result = await ended(body);
  expect(result.stdout).toBe("ready\n");
  expect(result.stderr).toMatch(/HOLDFAST_CLOSE.*still runs after the grace period/u);
  expect(result).toMatchObject({ code: null, signal: "SIGTERM" });
});

test("a second signal does not wait", async () => {
  const body = `closeOnSignals(locks, { grace: Infinity });
    void locks.run("a", async (lease) => { console.log("ready"); await until(lease.signal); console.log("ready again"); return new Promise(() => {}); });`;
  expect(await ended(body, ["SIGTERM", "SIGINT"])).toMatchObject({ code: null, signal: "SIGINT" });
});

test("a listener of the program decides how it ends, and two locks are both closed", async () => {
  const body = `const other = createLocks(memory());
    closeOnSignals(locks); closeOnSignals(other);
    process.once("SIGTERM", async () => {
      await Promise.all([locks.close(), other.close()]);
      console.log("mine"); process.exit(7);
    });
    void other.run("a", async (lease) => { console.log("ready"); await until(lease.signal); });`;
  expect(await ended(body)).toMatchObject({ code: 7, signal: null, stdout: "ready\nmine\n" });
});

test.each(["before", "after"])("a listener that the program added once(), %s it, has its time", async (when) => {
  const listen = `process.once("SIGTERM", () => setImmediate(() => setImmediate(() => setTimeout(() => { console.log("mine"); process.exit(7); }, 50))));`;
  const body = `${when === "before" ? listen : ""} closeOnSignals(locks); ${when === "after" ? listen : ""} console.log("ready");`;
  expect(await ended(body)).toMatchObject({ code: 7, signal: null, stdout: "ready\nmine\n" });
});

test("a signal that is named twice is one, and a list that is changed later changes nothing", async () => {
  const body = `const signals = ["SIGTERM", "SIGTERM"];
    closeOnSignals(locks, { signals });
    signals.length = 0;
    void locks.run("a", async (lease) => {
      console.log("ready");
      await until(lease.signal);
      await new Promise((resolve) => setTimeout(resolve, 50));
      console.log("wound down");
    });`;
  expect(await ended(body)).toMatchObject({ code: null, signal: "SIGTERM", stdout: "ready\nwound down\n" });
});

test.each([`() => { throw new Error("boom"); }`, `() => {}`])("close() may be anything: %s", async (close) => {
  const body = `closeOnSignals({ close: ${close} }); console.log("ready");`;
  const result = await ended(body);
  expect(result).toMatchObject({ code: null, signal: "SIGTERM" });
  expect(result.stderr.includes("HOLDFAST_CLOSE")).toBe(close.includes("boom"));
});

test("what it returns ends the listening; wrong arguments listen to nothing", () => {
  const locks = { close: async (): Promise<void> => {} };
  const before = ["SIGTERM", "SIGUSR2"].map((signal) => process.listenerCount(signal));
  const stop = closeOnSignals(locks, { signals: ["SIGUSR2"] });
  expect(process.listenerCount("SIGUSR2")).toBe(before[1]! + 1);
  stop();
  for (const args of [
    [locks, { signals: ["SIGTERM", "SIGKILL"] }],
    [locks, { signals: [] }],
    [locks, { signals: "SIGTERM" }],
    [locks, { grace: -1 }],
    [locks, null],
    [{}, {}],
    [undefined],
  ]) {
    expect(() => closeOnSignals(...(args as [never])), JSON.stringify(args)).toThrow(TypeError);
  }
  expect(["SIGTERM", "SIGUSR2"].map((signal) => process.listenerCount(signal))).toEqual(before);
});
