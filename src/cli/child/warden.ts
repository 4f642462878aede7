/** Starts the warden and talks to it. Its pipe buffers, so nobody waits until it has started. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

import { type Family, MARK_VARIABLE } from "./family.ts";

const PROGRAM = fileURLToPath(new URL("warden-process.js", import.meta.url));
// It holds a few lines of text: the smallest heap, and no compiled code, save some megabytes for as long as the command runs.
const NODE_FLAGS = ["--max-old-space-size=16", "--max-semi-space-size=1", "--jitless", "--no-warnings"];
const RESTARTS_MAX = 5;

export class Warden {
  #process: ChildProcess;
  #family: Family | undefined;
  #deadlineMs: number | undefined;
  #restarts = 0;
  #dismissed = false;
  /** Told the pid of each new warden that takes the place of one that was killed. */
  replaced: (pid: number) => void = () => {};

  constructor() {
    this.#process = this.#start();
  }

  /** Absent when it could not be started. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  watch(family: Family): void {
    this.#family = family;
    this.#tell(`watch ${family.pid} ${family.startTime ?? "-"} ${family.leads ? 1 : 0} ${family.mark}`);
  }

  /** At this instant, by {@link machineMs}, the family is ended unless a later one was told before. */
  until(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
    this.#tell(`until ${deadlineMs}`);
  }

  /** Nothing is left to be ended. It may not even have started to listen, so it is not asked. */
  dismiss(): void {
    this.#dismissed = true;
    this.#process.kill("SIGKILL");
    this.#process.unref();
  }

  #tell(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  #start(): ChildProcess {
    const { [MARK_VARIABLE]: _mark, NODE_OPTIONS: _options, ...env } = process.env;
    const warden = spawn(process.execPath, [...NODE_FLAGS, PROGRAM], {
      env,
      cwd: "/",
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    // A write to a warden that has just been killed: its exit is handled below.
    warden.stdin.on("error", () => {});
    warden.on("error", () => {});
    warden.on("exit", () => this.#restart());
    return warden;
  }

  #restart(): void {
    if (this.#dismissed || this.#restarts >= RESTARTS_MAX) return;
    this.#restarts++;
    this.#process = this.#start();
    if (this.#family !== undefined) this.watch(this.#family);
    if (this.#deadlineMs !== undefined) this.until(this.#deadlineMs);
    if (this.#process.pid !== undefined) this.replaced(this.#process.pid);
  }
}

/** Milliseconds of the machine's monotonic clock, the same in all its processes. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
