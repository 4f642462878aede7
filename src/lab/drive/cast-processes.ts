/** The clients of a round as processes: stopped, killed and replaced; and at the end each must leave by itself. */
import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { HistoryEvent } from "../../testing/history/events.ts";
import { tiedNode } from "../clients/client.ts";
import { systemClock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { within } from "../../contract/time-limit.ts";
import type { Cast, CastTerms } from "./cast.ts";
import { type FromActor, SETUP_VARIABLE, type ToActor } from "./process-orders.ts";
import type { Report } from "./report.ts";

const PROGRAM = fileURLToPath(new URL("actor-process.js", import.meta.url));
/** A process with nothing to do is gone long before. */
const EXIT_MS = 15_000;

type Held = HistoryEvent & { readonly kind: "held" };

/** One process, with what it believes: a dead process believes nothing. */
class Player {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #report: Report;
  readonly #holding: Map<string, Held> = new Map();
  readonly #waiting: Map<number, () => void> = new Map();
  readonly #ended: Promise<void>;
  #diedMs: number | undefined;
  #lastId = 0;
  #closed: CastTerms["closed"] | undefined;

  constructor(name: string, dir: string, dist: string | undefined, prefix: string, report: Report) {
    this.#name = name;
    this.#report = report;
    const { NODE_OPTIONS: _, ...clean } = process.env;
    this.#child = fork(PROGRAM, [], {
      serialization: "advanced",
      env: { ...clean, [SETUP_VARIABLE]: JSON.stringify({ name, prefix, dir, dist }) },
      ...tiedNode(),
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let complaint = "";
    this.#child.stderr?.on("data", (data: Buffer) => (complaint = (complaint + data.toString()).slice(-2000)));
    this.#ended = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        if (this.#diedMs === undefined && (code !== 0 || complaint !== "")) {
          const message = `${name} ended with ${signal ?? code}: ${complaint}`;
          report.find({ step: 0, rule: "a process ended", message });
        }
        this.#diedMs ??= machineMs();
        for (const held of this.#holding.values()) this.#bury(held);
        for (const answer of this.#waiting.values()) answer();
        resolve();
      });
    });
  }

  ready(client: number, { closed }: CastTerms): Promise<void> {
    this.#closed = closed;
    return new Promise((resolve) => {
      void this.#ended.then(resolve);
      this.#child.on("message", (message: FromActor) => {
        if (message.type === "ready") resolve();
        else if (message.type === "event") this.#hear(message.event);
        else if (message.type === "finding") this.#report.find(message.finding);
        else if (message.type === "count") this.#report.count(message.what);
        else if (message.type === "done") this.#waiting.get(message.id)?.();
        else void this.#closed?.(client, message.holder, message.step, message.clean);
      });
    });
  }

  tell(order: ToActor): void {
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }

  async ask(what: "settle" | "finish"): Promise<void> {
    if (this.#diedMs !== undefined || !this.#child.connected) return;
    const id = ++this.#lastId;
    const answered = new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    this.tell({ do: what, id });
    await answered;
    this.#waiting.delete(id);
  }

  async stopFor(ms: number): Promise<void> {
    this.#child.kill("SIGSTOP");
    await sleep(ms);
    this.#child.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    // Before the signal leaves: a store that notices dead processes may have another holder before we learn of the end.
    this.#diedMs ??= machineMs();
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  /** It has closed everything: the process must end by itself. */
  async leaves(): Promise<void> {
    if (
      (await within(
        systemClock,
        this.#ended.then(() => true),
        EXIT_MS,
      )) === true
    )
      return;
    this.#report.find({ step: 0, rule: "process does not end", message: this.#name });
    await this.kill();
  }

  #hear(event: HistoryEvent): void {
    this.#report.event(event);
    if (!("who" in event)) return;
    const key = `${event.who} ${event.lock}`;
    if (event.kind === "held") {
      this.#holding.set(key, event);
      if (this.#diedMs !== undefined) this.#bury(event);
    } else if (event.kind === "releasing" || event.kind === "lost") this.#holding.delete(key);
  }

  #bury({ who, lock, fence, atMs }: Held): void {
    const diedMs = Math.max(this.#diedMs ?? 0, atMs);
    this.#report.event({ kind: "lost", atMs: diedMs, who, lock, fence });
  }
}

export async function castProcesses(
  dir: string,
  dist: string | undefined,
  clients: number,
  report: Report,
  terms: CastTerms,
): Promise<Cast> {
  let born = 0;
  const start = async (client: number): Promise<Player> => {
    const player = new Player(`c${client + 1}p${++born}`, dir, dist, terms.prefix, report);
    await player.ready(client, terms);
    return player;
  };
  const players = await Promise.all(Array.from({ length: clients }, (_, client) => start(client)));
  const at = (client: number): Player => players[client] as Player;
  return {
    clients: [],
    perform: (client, step, act) => at(client).tell({ do: "perform", step, act }),
    process: async (client, what, forMs) => {
      if (what === "stop") return at(client).stopFor(forMs);
      await at(client).kill();
      players[client] = await start(client);
    },
    settled: async () => void (await Promise.all(players.map((player) => player.ask("settle")))),
    finish: async () => {
      await Promise.all(players.map((player) => player.ask("finish")));
      await Promise.all(players.map((player) => player.leaves()));
    },
    stop: async () => void (await Promise.all(players.map((player) => player.kill()))),
  };
}
