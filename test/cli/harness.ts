/** Runs the real `holdfast` binary in child processes, each test in a store of its own. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { vi } from "vitest";
import { LeftoverError } from "../../src/testing/leftovers.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { BUNDLE, DIST } from "../dist.ts";

// Each test starts many processes; on a busy machine that takes its time. These limits only end what has failed anyway.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** How long a process may take to end after its test. */
const ENDING_MS = 10_000;
const NOTHING = new Int32Array(new SharedArrayBuffer(4));

/** The program as users get it. */
export const SHIPPED: string = join(DIST, "cli/main.js");
export const MAIN: string = join(BUNDLE, "cli/main.js");

export interface Result {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly done: Promise<Result>;
  stdout(): string;
  stderr(): string;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string;
  readonly cwd?: string;
  /** @default MAIN */
  readonly main?: string;
}

/**
 * A folder with a store in it, gone after the test, with everything that a failed test left running. A test that passed leaves
 * nothing: no process, nothing held or queued in the store, no note of a lease. Or it says what, and why.
 */
export class Bench {
  readonly dir: string = mkdtempSync(join(tmpdir(), "hf-cli-"));
  readonly url: string = `file://${join(this.dir, "locks")}`;
  readonly #started: Started[] = [];
  readonly #excused: RegExp[] = [];

  start(args: readonly string[], { env = {}, input, cwd = this.dir, main = MAIN }: StartOptions = {}): Started {
    const child = spawn(process.execPath, [main, ...args], {
      cwd,
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        ...process.env,
        HOLDFAST_URL: this.url,
        HOLDFAST_STATE_DIR: join(this.dir, "claims"),
        NO_COLOR: "1",
        FORCE_COLOR: undefined,
        ...env,
      },
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (text: Buffer) => (stdout += text.toString()));
    child.stderr.on("data", (text: Buffer) => (stderr += text.toString()));
    child.stdin.on("error", () => {});
    if (input !== undefined) child.stdin.end(input);
    const done = once(child, "close").then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout,
      stderr,
    }));
    const started = { process: child, pid: child.pid ?? 0, done, stdout: () => stdout, stderr: () => stderr };
    this.#started.push(started);
    return started;
  }

  async run(args: readonly string[], options: StartOptions = {}): Promise<Result> {
    return this.start(args, { input: "", ...options }).done;
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  write(name: string, text: string): string {
    writeFileSync(this.path(name), text, { mode: 0o755 });
    return this.path(name);
  }

  /** The file's lines so far; none when it does not exist yet. */
  lines(name: string): readonly string[] {
    try {
      return readFileSync(this.path(name), "utf8").split("\n").slice(0, -1);
    } catch {
      return [];
    }
  }

  childrenOf(pid: number): readonly number[] {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return text === "" ? [] : text.split(" ").map(Number);
  }

  /** What was started here, and its scripts, which all name this folder. */
  #leftRunning(): readonly number[] {
    const ours = new Set(this.#started.map(({ pid }) => pid));
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && pid !== process.pid && isRunning(pid))
      .filter((pid) => ours.has(pid) || commandOf(pid).includes(this.dir));
  }

  /** Says before the end that what matches `what` will be left, and why that is right. */
  leaves(what: RegExp, why: string): void {
    if (why.split(" ").length < 4) throw new TypeError(`Not a reason: ${why}`);
    this.#excused.push(what);
  }

  /** Judges what is left, and removes it. */
  close(): void {
    const left = this.#left().filter((what) => !this.#excused.some((pattern) => pattern.test(what)));
    this.#remove();
    if (left.length > 0) throw new LeftoverError(left);
  }

  #left(): readonly string[] {
    const endMs = Date.now() + ENDING_MS;
    // What was asked to end needs a moment. This blocks, so a test that forgets to wait for close() is judged all the same.
    while (this.#leftRunning().length > 0 && Date.now() < endMs) Atomics.wait(NOTHING, 0, 0, 20);
    const processes = this.#leftRunning().map((pid) => `a process: ${commandOf(pid).replaceAll("\0", " ").trim()}`);
    return [...processes, ...this.#leftInStore(), ...this.#notes()];
  }

  #leftInStore(): readonly string[] {
    if (!existsSync(this.path("locks"))) return [];
    const env = { ...process.env, HOLDFAST_URL: this.url, HOLDFAST_STATE_DIR: this.path("claims") };
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, "ls", "--json"], { env, encoding: "utf8" });
    if (status !== 0) return [`a store that cannot be asked: ${stderr}`];
    const { held, pending } = JSON.parse(stdout) as Record<"held" | "pending", { name: string; holder: string }[]>;
    return [
      ...held.map(({ name, holder }) => `a lease of ${holder} on ${name}`),
      ...pending.map(({ name, holder }) => `a waiting claim of ${holder} on ${name}`),
    ];
  }

  /** Notes of leases and the marks of their releases are kept for two days; what was written aside has got its name by now. */
  #notes(): readonly string[] {
    const folder = this.path("claims");
    const files = existsSync(folder) ? readdirSync(folder) : [];
    return files.filter((name) => !/^[\w-]{22}-\d+\.json(\.releasing)?$/.test(name)).map((name) => `a file ${name}`);
  }

  #remove(): void {
    for (const { process: child } of this.#started) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    }
    for (const pid of this.#leftRunning()) process.kill(pid, "SIGKILL");
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Waits until `what()` is true or a value. The limit only ends a test that has failed anyway. */
export function until<T>(
  what: () => T | undefined | false | Promise<T | undefined | false>,
  about: string,
  patienceMs = 60_000,
): Promise<T> {
  return eventually(about, async () => (await what()) || undefined, { patienceMs });
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}

/** True while a process runs; a zombie does not, unless only its main thread has ended. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return !/^[ZX]/.test(fields[0] ?? "") || Number(fields[17]) > 1;
  } catch {
    return false;
  }
}
