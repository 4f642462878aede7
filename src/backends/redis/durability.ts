/**
 * Scripts that count only when replicas have what they wrote. WAIT is about the writes of its own connection, and blocks it, so both are sent
 * in order on a connection of our own to the server that has the keys. Calls that arrive while one WAIT is under way share the next.
 */
import { type Connection, openOwn, type OwnConnection } from "./connection.ts";
import { isNoScript } from "./errors.ts";
import type { Script } from "./generated/scripts.ts";
import { slotOf } from "./keys.ts";

interface Replicated {
  readonly reply: unknown;
  /** How many had it in time. */
  readonly replicas: number;
}

/** How much longer than WAIT itself an answer may take before its connection is closed. */
const SILENT_MS = 5000;
/** While a slot is moved there may be a few redirects. */
const HOPS_MAX = 8;

interface Task {
  readonly commands: readonly (readonly string[])[];
  resolve(answer: Replicated): void;
  reject(error: unknown): void;
}

export class Replicator {
  readonly #connection: Connection;
  readonly #wait: { readonly replicas: number; readonly waitMs: number };
  readonly #lines: Map<string, Line> = new Map();
  /** Where a cluster redirected us, until the client knows it too. */
  readonly #moved: Map<number, string> = new Map();
  readonly #stopWatching: () => void;

  constructor(connection: Connection, wait: { readonly replicas: number; readonly waitMs: number }) {
    this.#connection = connection;
    this.#wait = wait;
    // The primary may be another one now, even if the old one still answers.
    this.#stopWatching = connection.onReconnect(() => this.#forget());
  }

  /** Runs the script where its keys are, and waits for the replicas. Rejects as the client library does. */
  async run(script: Script, keys: readonly string[], args: readonly string[]): Promise<Replicated> {
    const { keyPrefix, topology } = this.#connection;
    const full = keys.map((key) => keyPrefix + key);
    const slot = topology === "cluster" ? slotOf(full[0] as string) : -1;
    let [name, text] = ["EVALSHA", script.sha];
    let asking: string | undefined;
    for (let hops = 0; ; hops++) {
      const to = asking ?? this.#moved.get(slot) ?? this.#connection.nodeOf(keys[0] as string);
      const command = [name, text, String(full.length), ...full, ...args];
      const answer = await this.#lineTo(to).ask(asking === undefined ? [command] : [["ASKING"], command]);
      const { reply } = answer;
      if (!(reply instanceof Error)) return answer;
      const [, kind, address] = /^(MOVED|ASK) \d+ (\S+)$/u.exec(reply.message) ?? [];
      if (hops === HOPS_MAX || (address === undefined && !isNoScript(reply))) {
        // No longer a primary: find the new one.
        if (reply.message.includes("READONLY")) this.#forget();
        throw reply;
      }
      asking = kind === "ASK" ? address : undefined;
      if (kind === "MOVED" && address !== undefined) this.#moved.set(slot, address);
      if (address === undefined) [name, text] = ["EVAL", script.source];
    }
  }

  close(): void {
    this.#stopWatching();
    this.#forget();
  }

  #lineTo(to: string): Line {
    const known = this.#lines.get(to);
    if (known !== undefined) return known;
    const line = new Line(this.#connection, to, this.#wait);
    this.#lines.set(to, line);
    return line;
  }

  #forget(): void {
    this.#moved.clear();
    for (const line of this.#lines.values()) line.close();
    this.#lines.clear();
  }
}

/** One server: calls that arrive while a WAIT is under way are sent together after it, followed by one WAIT for all. */
class Line {
  readonly #connection: Connection;
  readonly #to: string;
  readonly #wait: { readonly replicas: number; readonly waitMs: number };
  #waiting: Task[] = [];
  #busy = false;
  #own: OwnConnection | undefined;
  #closed = false;

  constructor(connection: Connection, to: string, wait: { readonly replicas: number; readonly waitMs: number }) {
    this.#connection = connection;
    this.#to = to;
    this.#wait = wait;
  }

  /** Resolves to the answer to the last of the commands. */
  ask(commands: Task["commands"]): Promise<Replicated> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commands, resolve, reject });
      if (!this.#busy) void this.#work();
    });
  }

  close(): void {
    this.#closed = true;
    this.#own?.close();
  }

  async #work(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      const tasks = this.#waiting;
      this.#waiting = [];
      await this.#askAll(tasks).catch((error: unknown) => {
        // Nothing is sent again: on another connection WAIT would confirm nothing.
        this.#own?.close();
        this.#own = undefined;
        for (const task of tasks) task.reject(error);
      });
    }
    this.#busy = false;
    if (this.#closed) this.#own?.close();
  }

  async #askAll(tasks: readonly Task[]): Promise<void> {
    if (!this.#own?.isOpen)
      this.#own = await openOwn(this.#connection, this.#to, { message: () => {}, ended: () => {} });
    const { replicas, waitMs } = this.#wait;
    const commands = [...tasks.flatMap((task) => task.commands), ["WAIT", String(replicas), String(waitMs)]];
    const answers = await this.#soon(this.#own, commands, waitMs + SILENT_MS);
    const waited = answers.at(-1);
    let at = -1;
    for (const task of tasks) {
      at += task.commands.length;
      const reply = answers[at];
      // A refused command needs no replicas; on a replica, for example, WAIT is refused too.
      if (waited instanceof Error && !(reply instanceof Error)) task.reject(waited);
      else task.resolve({ reply, replicas: Number(waited) });
    }
  }

  async #soon(own: OwnConnection, commands: Task["commands"], ms: number): Promise<readonly unknown[]> {
    // Closes the connection, which rejects the promise.
    const timer = setTimeout(() => own.close(), ms);
    try {
      return await own.send(commands);
    } finally {
      clearTimeout(timer);
    }
  }
}
