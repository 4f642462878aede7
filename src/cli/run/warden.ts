/** Starts the warden and talks to it. Its pipe buffers, so holdfast does not wait until it has started. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

import { ordinal } from "../format-lock.ts";
import type { Family } from "./process-tree.ts";
import { MARK_VARIABLE } from "./process-marks.ts";
import type { WardenOrder } from "./warden-process.ts";

const PROGRAM = fileURLToPath(new URL("warden-process.js", import.meta.url));
// It holds a few lines of text: the smallest heap, and no compiled code, save some megabytes for as long as the command runs.
const NODE_FLAGS = ["--max-old-space-size=16", "--max-semi-space-size=1", "--jitless", "--no-warnings"];
/** The first replacement comes at once; the next ones less and less soon, so that whatever kills them does not get all our time. */
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 1000;

export interface WardenEvents {
  /** Called with the pid of each new warden that replaces a killed one. */
  readonly replaced: (pid: number) => void;
  /** Called with a text for the user: the command is less well guarded, and why. */
  readonly trouble: (message: string) => void;
}

export class Warden {
  #process: ChildProcess;
  #family: Family | undefined;
  #deadlineMs: number | undefined;
  #deaths = 0;
  #dismissed = false;
  #timer: NodeJS.Timeout | undefined;
  events: WardenEvents = { replaced: () => {}, trouble: () => {} };

  constructor() {
    this.#process = this.#start();
  }

  /** Absent when it could not be started. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  watch(family: Family): void {
    this.#family = family;
    this.#send({ watch: family });
  }

  /** At this instant, by the machine's monotonic clock, the family is ended unless a later instant was sent before. */
  until(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
    this.#send({ until: deadlineMs });
  }

  /** Nothing is left to be ended. It may not even have started to listen, so it is not asked. */
  dismiss(): void {
    this.#dismissed = true;
    clearTimeout(this.#timer);
    this.#process.kill("SIGKILL");
    this.#process.unref();
  }

  #send(order: WardenOrder): void {
    this.#process.stdin?.write(`${JSON.stringify(order)}\n`);
  }

  #start(): ChildProcess {
    // It needs neither the store nor its password, and bears no mark: it must outlive a run around this one.
    const { [MARK_VARIABLE]: _mark, HOLDFAST_URL: _url, NODE_OPTIONS: _options, ...env } = process.env;
    const warden = spawn(process.execPath, [...NODE_FLAGS, PROGRAM], {
      env,
      cwd: "/",
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    // A write to a warden that has just been killed: its exit is handled below.
    warden.stdin.on("error", () => {});
    // Only one of the two comes.
    warden.on("error", () => this.#died("could not be started"));
    warden.on("exit", (code, signal) => this.#died(`was ended (${signal ?? `exit code ${code}`})`));
    return warden;
  }

  /** Replaced for as long as there is a command to guard: also the seventh time. */
  #died(how: string): void {
    if (this.#dismissed) return;
    this.#deaths++;
    const times = this.#deaths === 1 ? "" : `, for the ${ordinal(this.#deaths)} time`;
    this.events.trouble(
      `the warden, which ends the command if holdfast is killed, ${how}${times}: starting another. Until then only holdfast itself watches over the command`,
    );
    const pauseMs = this.#deaths === 1 ? 0 : Math.min(PAUSE_MIN_MS * 2 ** (this.#deaths - 2), PAUSE_MAX_MS);
    this.#timer = setTimeout(() => this.#replace(), pauseMs);
  }

  #replace(): void {
    this.#process = this.#start();
    if (this.#family !== undefined) this.watch(this.#family);
    if (this.#deadlineMs !== undefined) this.until(this.#deadlineMs);
    if (this.#process.pid !== undefined) this.events.replaced(this.#process.pid);
  }
}
