/** Starts a client of Web Locks in a process of its own: see client-process.mjs. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { LocksOptions } from "../../../src/core/api.ts";
import type { WebLockOptions } from "../../../src/drop-ins/web-locks/index.ts";
import { eventually } from "../../../src/testing/eventually.ts";

export interface Report {
  readonly id?: number;
  readonly event: "ready" | "granted" | "none" | "lost" | "resolved" | "rejected";
  readonly fence?: string;
  readonly error?: string;
  readonly cause?: string;
}

export class ClientProcess {
  readonly #child: ChildProcess;
  readonly #reports: Report[] = [];
  #requests = 0;

  private constructor(url: string, options: LocksOptions) {
    this.#child = fork(join(import.meta.dirname, "client-process.mjs"), [url, JSON.stringify(options)]);
    this.#child.on("message", (message: Report) => this.#reports.push(message));
  }

  static async start(url: string, options: LocksOptions = {}): Promise<ClientProcess> {
    const client = new ClientProcess(url, options);
    await client.reported("ready");
    return client;
  }

  request(name: string, options: WebLockOptions = {}): number {
    const id = ++this.#requests;
    this.#child.send({ id, op: "request", name, options });
    return id;
  }

  release(id: number): void {
    this.#child.send({ id, op: "release" });
  }

  reported(event: Report["event"], id?: number): Promise<Report> {
    return eventually(`the process says ${event}`, () => {
      const found = this.#reports.find((one) => one.event === event && one.id === id);
      if (found === undefined && this.#child.exitCode !== null)
        throw new Error(`it ended with ${this.#child.exitCode}`);
      return found;
    });
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.send({ op: "close" });
    await ended;
  }
}
