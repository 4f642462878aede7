/** Locks shared with Java's Curator and Python's kazoo: processes of both on one path, on a counter that nothing else protects. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLocks, type Lease, type Locks } from "../../../src/index.ts";
import { makeScratch, removeScratch } from "../../../src/lab/servers/scratch.ts";
import { findProgram } from "../../../src/lab/servers/programs.ts";
import { startZooKeeper, type ZooKeeperLab } from "../../../src/lab/servers/zookeeper.ts";
import { type Dialect, zookeeper } from "../../../src/backends/zookeeper/index.ts";

const run = promisify(execFile);
const FOLDER = join(import.meta.dirname, "interop");
const PARTS = ["curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute"];
const JARS = [...PARTS, "guava", "slf4j-api", "slf4j-nop"].map((jar) => `/usr/share/java/${jar}.jar`).join(":");
/** Each side enters this many sections at least. */
const SECTIONS = 60;
const LOOPS = 3;

let lab: ZooKeeperLab;
let scratch: string;
let servers: string;
let java: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  scratch = makeScratch();
  const javac = await findProgram("javac");
  java = await findProgram("java");
  await findProgram("curator-recipes.jar");
  await findProgram("kazoo/client.py");
  const compiled = run(javac, ["-cp", JARS, "-d", scratch, join(FOLDER, "CuratorDriver.java")]);
  lab = await startZooKeeper({ servers: 3 });
  servers = lab.url.slice("zk://".length);
  await compiled;
});

afterAll(async () => {
  // After a failed test the other side still waits.
  for (const child of children) child.kill("SIGKILL");
  await lab.stop();
  removeScratch(scratch);
});

interface Report {
  readonly violations: number;
  /** How many were inside at once, at most. */
  readonly most: number;
  /** How often it saw a holder of our side inside too. */
  readonly together: number;
}

interface Driver {
  /** Makes it go on, and resolves to its next line. */
  step(): Promise<string>;
  /** Resolves to what it saw. */
  work(): Promise<Report>;
}

/** Starts the other side, and waits until it is connected. */
async function start(program: string, args: readonly string[]): Promise<Driver> {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  children.push(child);
  let output = "";
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const exited = once(child, "exit");
  const { value: ready } = await lines.next();
  expect(ready, output).toBe("ready");
  return {
    step: async () => {
      child.stdin.write("\n");
      return String((await lines.next()).value);
    },
    work: async () => {
      child.stdin.end("\n");
      const { value: report } = await lines.next();
      await exited;
      const match = /violations (\d+) most (\d+)(?: together (\d+))?/.exec(String(report));
      expect(match?.[1], `${String(report)}\n${output}`).toBe("0");
      return { violations: Number(match?.[1]), most: Number(match?.[2]), together: Number(match?.[3] ?? 0) };
    },
  };
}

function curator(recipe: string, path: string, shared: string): Promise<Driver> {
  const args = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-cp",
    `${scratch}:${JARS}`,
    "CuratorDriver",
  ];
  return start(java, [...args, servers, recipe, path, String(LOOPS), String(SECTIONS / LOOPS), shared]);
}

function kazoo(recipe: string, path: string, shared: string, pattern: string): Promise<Driver> {
  const script = join(FOLDER, "kazoo_driver.py");
  // The system's Python: Debian's package belongs to it, and not to another one that may come first on the PATH.
  const args = [script, servers, recipe, path, String(LOOPS), String(SECTIONS / LOOPS), shared, pattern];
  return start("/usr/bin/python3", args);
}

/** Runs `section` as often as the other side does, from as many sessions. */
async function enter(
  dialect: Dialect,
  path: string,
  limit: number,
  section: (lease: Lease, loop: number) => Promise<void>,
  modes: readonly ("exclusive" | "shared")[] = [],
): Promise<void> {
  const loops = Array.from({ length: LOOPS }, async (_, loop) => {
    const locks: Locks = createLocks(zookeeper({ servers, names: "paths", dialect, session: "20s" }));
    for (let times = 0; times < SECTIONS / LOOPS; times++) {
      await locks.run(path, { wait: Infinity, limit, mode: modes[loop] ?? "exclusive" }, (lease) =>
        section(lease, loop),
      );
    }
    await locks.close();
  });
  await Promise.all(loops);
}

function counterFile(): string {
  const file = join(mkdtempSync(join(scratch, "shared-")), "counter");
  writeFileSync(file, "0 0");
  return file;
}

async function write(file: string, fence: bigint): Promise<void> {
  const [count, last] = readFileSync(file, "utf8").split(" ") as [string, string];
  expect(fence).toBeGreaterThan(BigInt(last));
  await sleep(1);
  writeFileSync(file, `${Number(count) + 1} ${fence}`);
}

async function read(file: string): Promise<void> {
  const before = readFileSync(file, "utf8");
  await sleep(2);
  expect(readFileSync(file, "utf8")).toBe(before);
}

function counted(file: string): number {
  return Number(readFileSync(file, "utf8").split(" ")[0]);
}

describe("Curator", () => {
  test("and we take turns under InterProcessMutex: nothing is lost, and fences rise", async () => {
    const file = counterFile();
    const driver = await curator("mutex", "/interop/mutex", file);
    await Promise.all([driver.work(), enter("curator", "/interop/mutex", 1, ({ fence }) => write(file, fence))]);
    expect(counted(file)).toBe(2 * SECTIONS);
  });

  test("and we share InterProcessReadWriteLock: readers see nothing change, and no write is lost", async () => {
    const file = counterFile();
    const driver = await curator("readwrite", "/interop/rw", file);
    const section = ({ fence }: Lease, loop: number): Promise<void> => (loop === 0 ? read(file) : write(file, fence));
    await Promise.all([driver.work(), enter("curator-rw", "/interop/rw", 1, section, ["shared"])]);
    expect(counted(file)).toBe(2 * ((SECTIONS / LOOPS) * (LOOPS - 1)));
  });

  test("and we share InterProcessSemaphoreV2: never more inside than the limit", async () => {
    const folder = join(mkdtempSync(join(scratch, "shared-")), "inside");
    mkdirSync(folder);
    const driver = await curator("semaphore", "/interop/semaphore", folder);
    let [most, together] = [0, 0];
    // The one that comes in last sees all others: so it counts right after it came in, not only before it goes.
    const count = (): boolean => {
      const inside = readdirSync(folder);
      most = Math.max(most, inside.length);
      const meets = inside.some((name) => name.startsWith("java"));
      if (meets) together++;
      return meets;
    };
    // One loop stays at its first visit until it has met a holder of the other side.
    let meets = true;
    const section = async (_: Lease, loop: number): Promise<void> => {
      const inside = join(folder, `node-${loop}`);
      writeFileSync(inside, "");
      const stays = loop === 0 && meets;
      count();
      do await sleep(2);
      while (!count() && stays);
      if (loop === 0) meets = false;
      rmSync(inside);
    };
    const [java] = await Promise.all([driver.work(), enter("curator", "/interop/semaphore", 2, section)]);
    // Both sides were inside, at the same time too: else this would show nothing.
    expect(together).toBeGreaterThan(0);
    expect(java.together).toBeGreaterThan(0);
    expect(Math.max(most, java.most)).toBe(2);
  });
});

describe("Curator's semaphore and ours count each other's leases", () => {
  test("full of their leases it admits none of ours, and full of ours none of theirs", async () => {
    const driver = await curator("steps", "/interop/steps", scratch);
    const locks = createLocks(zookeeper({ servers, names: "paths", session: "20s" }));
    const enterOnce = (): Promise<Lease | null> => locks.tryAcquire("/interop/steps", { limit: 2 });
    expect(await driver.step()).toBe("holding");
    expect(await enterOnce()).toBeNull();
    expect(await driver.step()).toBe("released");
    const ours = [await enterOnce(), await enterOnce()];
    expect(ours).not.toContain(null);
    expect(await driver.step()).toBe("busy");
    for (const lease of ours) expect(await lease?.release()).toBe("released");
    await locks.close();
  });
});

describe("kazoo", () => {
  test("respects our Curator-style nodes when given their pattern, and we respect kazoo's", async () => {
    const file = counterFile();
    const driver = await kazoo("lock", "/interop/kazoo", file, "-lock-");
    await Promise.all([driver.work(), enter("curator", "/interop/kazoo", 1, ({ fence }) => write(file, fence))]);
    expect(counted(file)).toBe(2 * SECTIONS);
  });

  test('shares its WriteLock with our readers and writers of dialect "kazoo", without any setting', async () => {
    const file = counterFile();
    const driver = await kazoo("write", "/interop/kazoo-rw", file, "-");
    const section = ({ fence }: Lease, loop: number): Promise<void> => (loop === 0 ? read(file) : write(file, fence));
    await Promise.all([driver.work(), enter("kazoo", "/interop/kazoo-rw", 1, section, ["shared"])]);
    expect(counted(file)).toBe(SECTIONS + (SECTIONS / LOOPS) * (LOOPS - 1));
  });
});
