/** Runs the real `holdfast` binary in child processes, each test in a store of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { vi } from "vitest";
import { DIST } from "../dist.ts";

// Each test starts many processes; on a busy machine that takes its time. These limits only end what has failed anyway.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

export const MAIN: string = join(DIST, "cli/main.js");

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
}

/** A folder with a store in it, gone after the test, with everything that a failed test left running. */
export class Bench {
  readonly dir: string = mkdtempSync(join(tmpdir(), "hf-cli-"));
  readonly url: string = `file://${join(this.dir, "locks")}`;
  readonly #started: Started[] = [];

  start(args: readonly string[], { env = {}, input, cwd = this.dir }: StartOptions = {}): Started {
    const child = spawn(process.execPath, [MAIN, ...args], {
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

  /** What a failed test left behind: its scripts all name this folder. */
  #leftRunning(): readonly number[] {
    return readdirSync("/proc")
      .map(Number)
      .filter(
        (pid) => Number.isInteger(pid) && pid !== process.pid && isRunning(pid) && commandOf(pid).includes(this.dir),
      );
  }

  close(): void {
    for (const { process: child } of this.#started) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    }
    for (const pid of this.#leftRunning()) process.kill(pid, "SIGKILL");
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Waits until `what()` is true or a value. The limit only ends a test that has failed anyway. */
export async function until<T>(what: () => T | undefined | false, about: string, limitMs = 60_000): Promise<T> {
  const endMs = Date.now() + limitMs;
  for (;;) {
    const value = what();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > endMs) throw new Error(`did not happen: ${about}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
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
