/** `holdfast top`: all locks, live, on the whole screen. */
import { constants } from "node:os";

import type { Snapshot } from "../format-lock.ts";
import { ask, Silence } from "../ask-store.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { EXIT } from "../exit-codes.ts";
import type { Flags } from "../flags.ts";
import { type Io, paint, wantsColour } from "../io.ts";
import { type OpenStore, withLocks } from "../open-store.ts";
import { maskSecrets } from "../mask-secrets.ts";
import { snapshotJson } from "../format-lock.ts";
import { takeScreen } from "./terminal.ts";
import { leaseId, rowsOf, screen, SORTS, type TopState } from "./view.ts";

const REDRAW_MS = 200;
const DEFAULT_EVERY_MS = 1000;
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;

export const topCommand: Command = {
  spec: {
    name: "top",
    summary: "Watch all locks, live",
    usage: ["top [PREFIX] [--every 1s]"],
    about: [
      "Keys: q quits, / filters by name or holder, s sorts by the next column, r reverses, arrows and page keys scroll, space pauses. Red: less than a fifth of the time is left. Yellow: other claims wait.",
      "With --json it prints one snapshot and ends, as `holdfast ls --json` does.",
    ],
    flags: { every: { value: "DURATION", help: "how often to ask the store (default 1s)" } },
    examples: [
      ["holdfast top", "everything"],
      ["holdfast top invoice: --every 200ms", "some, more often"],
    ],
    exits: ["ok", "usage", "backend", "signal"],
    completes: "lock",
  },
  async run(io, flags) {
    const prefix = flags.positionals[0] ?? "";
    const everyMs = flags.durationMs("every", { minMs: 50, maxMs: 60_000 }) ?? DEFAULT_EVERY_MS;
    if (flags.has("json")) {
      io.json(snapshotJson(await withLocks(io, flags, (store) => ask(store, prefix))));
      return EXIT.ok;
    }
    if (!io.stdin.isTTY || !io.stdout.isTTY) {
      throw new UsageError("top needs a terminal; for scripts there is `holdfast ls --json`", "top");
    }
    return withLocks(io, flags, (store) => new Top(io, flags, store, prefix, everyMs).run());
  },
};

class Top {
  readonly #io: Io;
  readonly #store: OpenStore;
  readonly #prefix: string;
  readonly #everyMs: number;
  readonly #fullMs: Map<string, number> = new Map();
  #state: TopState;
  #seenAtMs = 0;
  #asking = false;
  #askedAtMs = -Infinity;
  readonly #silence: Silence = new Silence();
  #end: (code: number) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  #redraw: () => void = () => {};
  #page = 10;

  constructor(io: Io, _flags: Flags, store: OpenStore, prefix: string, everyMs: number) {
    this.#io = io;
    this.#store = store;
    this.#prefix = prefix;
    this.#everyMs = everyMs;
    this.#state = {
      url: maskSecrets(store.url),
      snapshot: undefined,
      ageMs: 0,
      sort: "name",
      descending: false,
      filter: "",
      typing: false,
      offset: 0,
      paused: false,
      trouble: undefined,
      fullMs: this.#fullMs,
    };
  }

  async run(): Promise<number> {
    const { stdin, stdout, env } = this.#io;
    const colours = wantsColour(stdout, env);
    const ended = new Promise<number>((resolve, reject) => {
      this.#end = resolve;
      this.#fail = reject;
    });
    const onSignal = (signal: NodeJS.Signals): void => this.#end(128 + constants.signals[signal]);
    for (const signal of ENDING) process.on(signal, onSignal);
    const terminal = takeScreen({
      stdin,
      stdout,
      onKey: (name, text) => this.#key(name, text),
      onResize: () => this.#redraw(),
    });
    this.#redraw = () => {
      this.#page = Math.max(1, terminal.rows - 5);
      const ageMs = this.#seenAtMs === 0 ? 0 : performance.now() - this.#seenAtMs;
      this.#change({ ageMs: this.#state.paused ? this.#state.ageMs : ageMs });
      terminal.draw(screen(this.#state, terminal.columns, terminal.rows, colours ? paint : (_, text) => text));
    };
    const timer = setInterval(() => this.#tick(), Math.min(REDRAW_MS, this.#everyMs));
    try {
      this.#tick();
      return await ended;
    } finally {
      clearInterval(timer);
      terminal.restore();
      for (const signal of ENDING) process.off(signal, onSignal);
    }
  }

  #tick(): void {
    if (!this.#state.paused && !this.#asking && performance.now() - this.#askedAtMs >= this.#everyMs) void this.#ask();
    this.#redraw();
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    this.#askedAtMs = performance.now();
    try {
      const snapshot = await ask(this.#store, this.#prefix);
      this.#silence.answered();
      this.#seenAtMs = performance.now();
      this.#remember(snapshot);
      this.#change({ snapshot, trouble: undefined });
    } catch (error) {
      if (this.#silence.isOver(error)) return this.#fail(error);
      this.#change({ trouble: this.#io.mask(error instanceof Error ? error.message : String(error)) });
    } finally {
      this.#asking = false;
      this.#redraw();
    }
  }

  #remember({ held }: Snapshot): void {
    const seen = new Set<string>();
    for (const holding of held) {
      const id = leaseId(holding);
      seen.add(id);
      if (Number.isFinite(holding.remainingMs)) {
        this.#fullMs.set(id, Math.max(this.#fullMs.get(id) ?? 0, holding.remainingMs));
      }
    }
    for (const id of this.#fullMs.keys()) if (!seen.has(id)) this.#fullMs.delete(id);
  }

  #key(name: string, text: string | undefined): void {
    if (name === "ctrl-c" || name === "ctrl-d") return this.#end(name === "ctrl-c" ? 130 : EXIT.ok);
    if (this.#state.typing) this.#typeKey(name, text);
    else this.#commandKey(name, text);
    this.#redraw();
  }

  #typeKey(name: string, text: string | undefined): void {
    const { filter } = this.#state;
    if (name === "return" || name === "enter") this.#change({ typing: false });
    else if (name === "escape") this.#change({ typing: false, filter: "" });
    else if (name === "backspace") this.#change({ filter: Array.from(filter).slice(0, -1).join("") });
    else if (text !== undefined && text >= " " && text !== "\u007f") this.#change({ filter: filter + text, offset: 0 });
  }

  #commandKey(name: string, text: string | undefined): void {
    const { sort, descending, paused, offset } = this.#state;
    if (name === "q" || name === "escape") this.#end(EXIT.ok);
    else if (text === "/") this.#change({ typing: true });
    else if (name === "s") this.#change({ sort: SORTS[(SORTS.indexOf(sort) + 1) % SORTS.length] ?? "name" });
    else if (name === "r") this.#change({ descending: !descending });
    else if (name === "space") this.#change({ paused: !paused });
    else if (name === "up" || name === "k") this.#scroll(offset - 1);
    else if (name === "down" || name === "j") this.#scroll(offset + 1);
    else if (name === "pageup") this.#scroll(offset - this.#page);
    else if (name === "pagedown") this.#scroll(offset + this.#page);
    else if (name === "home") this.#scroll(0);
    else if (name === "end") this.#scroll(Infinity);
  }

  #scroll(to: number): void {
    const last = Math.max(0, rowsOf(this.#state).length - this.#page);
    this.#change({ offset: Math.min(last, Math.max(0, to)) });
  }

  #change(part: Partial<TopState>): void {
    this.#state = { ...this.#state, ...part };
  }
}
