/**
 * Tries the file backend on this machine and this file system. Processes that take locks as fast as they can are killed at
 * random moments. The test checks that mutual exclusion holds, that no fence is given twice, and that locks are still taken
 * afterwards. For `holdfast doctor --self-test`, and, longer, for the tests of this backend.
 */
import { type ChildProcess, fork } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("file-self-test-worker.js", import.meta.url));
const WAIT_MAX_MS = 30_000;

export interface SelfTestOptions {
  /** @default 4 */
  readonly workers?: number | undefined;
  /** How many processes are killed. @default 60 */
  readonly kills?: number | undefined;
  /** Stop killing after this long. @default 6000 */
  readonly killsForMs?: number | undefined;
  /** Called with a line about what is being done. */
  readonly say?: ((line: string) => void) | undefined;
}

export interface SelfTestResult {
  readonly ok: boolean;
  readonly kills: number;
  /** How often a lock was taken, all processes together. */
  readonly leases: number;
  /** What should never happen, and did. */
  readonly faults: readonly string[];
}

/** Runs the self-test in a directory of its own below `directory`, and removes it afterwards. */
export async function selfTest(directory: string, options: SelfTestOptions = {}): Promise<SelfTestResult> {
  const { workers = 4, kills = 60, killsForMs = 6000, say = () => {} } = options;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const scratch = mkdtempSync(join(directory, "self-test-"));
  const journal = join(scratch, "journal");
  writeFileSync(journal, "");
  const pool = new WorkerPool(scratch, workers);
  try {
    say(`${workers} processes take the same locks while ${kills} of them are killed at random moments`);
    const killed = await pool.killSome(kills, killsForMs);
    const before = leasesIn(readFileSync(journal, "utf8"));
    const goesOn = await happensInTime(() => leasesIn(readFileSync(journal, "utf8")) > before + workers);
    await pool.stop();
    const text = readFileSync(journal, "utf8");
    const faults = [...faultsIn(text), ...pool.faults];
    if (!goesOn) faults.push(`no process got a lock within ${WAIT_MAX_MS / 1000} s after the last kill`);
    return { ok: faults.length === 0, kills: killed, leases: leasesIn(text), faults };
  } finally {
    await pool.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The worker processes. Each one that ends is replaced, until the pool is stopped. */
class WorkerPool {
  readonly faults: string[] = [];
  readonly #scratch: string;
  readonly #all = new Set<ChildProcess>();
  readonly #working = new Set<ChildProcess>();
  #stopped = false;

  constructor(scratch: string, size: number) {
    this.#scratch = scratch;
    for (let count = 0; count < size; count++) this.#start();
  }

  async killSome(kills: number, forMs: number): Promise<number> {
    const endMs = performance.now() + forMs;
    let killed = 0;
    while (killed < kills && performance.now() < endMs) {
      await pause(5 + Math.random() * 30);
      const working = [...this.#working];
      const victim = working[Math.floor(Math.random() * working.length)];
      if (victim === undefined) continue;
      this.#working.delete(victim);
      victim.kill("SIGKILL");
      killed++;
    }
    return killed;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const gone = [...this.#all].map((child) => new Promise((resolve) => child.once("exit", resolve)));
    for (const child of this.#all) child.kill("SIGKILL");
    await Promise.all(gone);
  }

  #start(): void {
    const child = fork(PROGRAM, [this.#scratch], { execArgv: [], stdio: ["ignore", "ignore", "pipe", "ipc"] });
    let stderr = "";
    this.#all.add(child);
    child.stderr?.on("data", (text: Buffer) => (stderr += text.toString()));
    child.once("message", () => this.#working.add(child));
    child.once("exit", (_code, signal) => {
      this.#all.delete(child);
      this.#working.delete(child);
      if (signal !== "SIGKILL") this.faults.push(`a process exited unexpectedly: ${stderr.slice(0, 500)}`);
      if (!this.#stopped && this.faults.length < 10) this.#start();
    });
  }
}

function leasesIn(journal: string): number {
  return journal.split("\n").filter((line) => line.startsWith("one ") || line.startsWith("two ")).length;
}

/** Only a holder writes, so the lines of the exclusive lock are in the order of its leases. */
function faultsIn(journal: string): string[] {
  const faults: string[] = [];
  const seen = new Set<string>();
  let last = 0n;
  for (const line of journal.split("\n")) {
    const [word, fence = ""] = line.split(" ");
    if (word === "fault") faults.push(line);
    if (word !== "one" && word !== "two") continue;
    if (seen.has(`${word} ${fence}`)) faults.push(`fence ${fence} of lock "${word}" was given twice`);
    seen.add(`${word} ${fence}`);
    if (word === "two") continue;
    if (BigInt(fence) <= last) faults.push(`fence ${fence} came after ${last}`);
    last = BigInt(fence);
  }
  return faults;
}

async function happensInTime(check: () => boolean): Promise<boolean> {
  const endMs = performance.now() + WAIT_MAX_MS;
  while (performance.now() < endMs) {
    if (check()) return true;
    await pause(20);
  }
  return check();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
