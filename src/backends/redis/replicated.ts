/**
 * Scripts that count only when replicas have what they wrote. WAIT speaks of what its own connection wrote, and blocks it, so that both go on
 * a connection of our own to the server that has the keys, in order. Whoever asks while one WAIT is under way shares the next.
 */
import type { Connection, Wire } from "./connection.ts";
import type { Script } from "./generated/scripts.ts";
import { isNoScript } from "./script.ts";
import { slotOf } from "./slot.ts";
import { opened } from "./open-in-time.ts";

export interface Replicated {
  readonly reply: unknown;
  /** How many had it in time. */
  readonly replicas: number;
}

/** How much longer than WAIT itself an answer may take before its connection is given up. */
const SILENT_MS = 5000;
/** A slot that moves may send us on a few times. */
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
  /** Where a cluster sent us, until the client knows better. */
  readonly #moved: Map<number, string> = new Map();
  readonly #stopWatching: () => void;

  constructor(connection: Connection, wait: { readonly replicas: number; readonly waitMs: number }) {
    this.#connection = connection;
    this.#wait = wait;
    // The primary may be another now, also where the old one still answers.
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
        // A primary no more: the next one is looked for.
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

/** One server: what is asked while a WAIT is under way goes together after it, before one WAIT for all. */
class Line {
  readonly #connection: Connection;
  readonly #to: string;
  readonly #wait: { readonly replicas: number; readonly waitMs: number };
  #waiting: Task[] = [];
  #busy = false;
  #wire: Wire | undefined;
  #closed = false;

  constructor(connection: Connection, to: string, wait: { readonly replicas: number; readonly waitMs: number }) {
    this.#connection = connection;
    this.#to = to;
    this.#wait = wait;
  }

  /** The answer is that to the last of the commands. */
  ask(commands: Task["commands"]): Promise<Replicated> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commands, resolve, reject });
      if (!this.#busy) void this.#work();
    });
  }

  close(): void {
    this.#closed = true;
    this.#wire?.close();
  }

  async #work(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      const tasks = this.#waiting;
      this.#waiting = [];
      await this.#askAll(tasks).catch((error: unknown) => {
        // Nothing is sent again: on another connection WAIT would speak of nothing, and confirm it.
        this.#wire?.close();
        this.#wire = undefined;
        for (const task of tasks) task.reject(error);
      });
    }
    this.#busy = false;
    if (this.#closed) this.#wire?.close();
  }

  async #askAll(tasks: readonly Task[]): Promise<void> {
    if (!this.#wire?.isOpen)
      this.#wire = await opened(this.#connection, this.#to, { message: () => {}, ended: () => {} });
    const { replicas, waitMs } = this.#wait;
    const commands = [...tasks.flatMap((task) => task.commands), ["WAIT", String(replicas), String(waitMs)]];
    const answers = await this.#soon(this.#wire, commands, waitMs + SILENT_MS);
    const waited = answers.at(-1);
    let at = -1;
    for (const task of tasks) {
      at += task.commands.length;
      const reply = answers[at];
      // What was refused needs no replicas; on a replica, for one, WAIT is refused too.
      if (waited instanceof Error && !(reply instanceof Error)) task.reject(waited);
      else task.resolve({ reply, replicas: Number(waited) });
    }
  }

  async #soon(wire: Wire, commands: Task["commands"], ms: number): Promise<readonly unknown[]> {
    // Ends the connection, and with it the promise.
    const timer = setTimeout(() => wire.close(), ms);
    try {
      return await wire.send(commands);
    } finally {
      clearTimeout(timer);
    }
  }
}
