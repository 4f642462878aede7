/** `holdfast top`: all locks, live, on the whole screen. */
import { constants } from "node:os";

import type { Snapshot } from "../format-lock.ts";
import { ask, Silence } from "../ask-store.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { EXIT } from "../exit-codes.ts";
import { type Io, paint, wantsColour } from "../io.ts";
import { type OpenStore, withLocks } from "../open-store.ts";
import { quote } from "../../contract/errors.ts";
import { maskSecrets } from "../../contract/mask-secrets.ts";
import { snapshotJson } from "../format-lock.ts";
import { takeScreen } from "./terminal.ts";
import { countRows, leaseId, screen, type Sort, SORTS, type TopState } from "./view.ts";
import { WaitSamples } from "../../core/wait-samples.ts";
import { waitsJson } from "./waits.ts";

const REDRAW_MS = 200;
const DEFAULT_EVERY_MS = 1000;
const FOR_MAX_MS = 86_400_000;
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;

export const topCommand: Command = {
  spec: {
    name: "top",
    summary: "Watch all locks, live",
    usage: ["top [PREFIX] [--every 1s] [--by COLUMN]", "top [PREFIX] --by wait --json [--for 10s]"],
    about: [
      "Keys: q quits, / filters by name or holder, s sorts by the next column, r reverses, arrows and page keys scroll, space pauses. Red: less than a fifth of the time is left. Yellow: other claims wait.",
      "With --json it prints one snapshot and ends, as `holdfast ls --json` does.",
      "--by wait shows for whom it was waited since top began: how long those that it saw have waited, and who held the lock meanwhile. What comes and goes between two looks is not seen; what a process counts exactly is in its own locks.contention().",
    ],
    flags: {
      every: { value: "DURATION", help: "how often to ask the store (default 1s)" },
      by: { value: "COLUMN", help: `sort by ${SORTS.slice(0, -1).join(", ")} or ${SORTS.at(-1)} (default name)` },
      for: { value: "DURATION", help: "with --by wait --json: how long to look (default once)" },
    },
    examples: [
      ["holdfast top", "everything"],
      ["holdfast top invoice: --every 200ms", "some, more often"],
      ["holdfast top --by wait", "which locks cost the most waiting, and because of whom"],
    ],
    exits: ["ok", "usage", "backend", "signal"],
    completes: "lock",
  },
  async run(io, flags) {
    const prefix = flags.positionals[0] ?? "";
    const everyMs = flags.durationMs("every", { minMs: 50, maxMs: 60_000 }) ?? DEFAULT_EVERY_MS;
    const sort = sortOf(flags.text("by"));
    const forMs = flags.durationMs("for", { minMs: 50, maxMs: FOR_MAX_MS });
    if (forMs !== undefined && !(sort === "wait" && flags.has("json")))
      throw new UsageError("--for goes with --by wait and --json", "top");
    if (flags.has("json") && sort === "wait") {
      io.json(await withLocks(io, flags, (store) => sampled(store, prefix, everyMs, forMs ?? 0)));
      return EXIT.ok;
    }
    if (flags.has("json")) {
      io.json(snapshotJson(await withLocks(io, flags, (store) => ask(store, prefix))));
      return EXIT.ok;
    }
    if (!io.stdin.isTTY || !io.stdout.isTTY) {
      throw new UsageError("top needs a terminal; for scripts there is `holdfast ls --json`", "top");
    }
    return withLocks(io, flags, (store) => new Top(io, sort, store, prefix, everyMs).run());
  },
};

function sortOf(by: string | undefined): Sort {
  const found = SORTS.find((sort) => sort === (by ?? "name"));
  if (found === undefined) throw new UsageError(`--by is one of ${SORTS.join(", ")}, not ${quote(by ?? "")}`, "top");
  return found;
}

/** The greatest first, where that is what one looks for. */
function isDescending(sort: Sort): boolean {
  return sort === "held" || sort === "waiters" || sort === "wait";
}

/** Looks for so long, and says who waited for whom. */
async function sampled(store: OpenStore, prefix: string, everyMs: number, forMs: number): Promise<object> {
  const samples = new WaitSamples();
  const beganMs = performance.now();
  for (;;) {
    const askedMs = performance.now();
    const snapshot = await ask(store, prefix);
    const nowMs = performance.now();
    samples.look(snapshot, nowMs);
    const untilMs = Math.min(askedMs + everyMs, beganMs + forMs);
    if (nowMs >= beganMs + forMs) return waitsJson(samples, samples.rows(), nowMs - beganMs);
    await new Promise((resolve) => setTimeout(resolve, Math.max(1, untilMs - nowMs)));
  }
}

class Top {
  readonly #io: Io;
  readonly #store: OpenStore;
  readonly #prefix: string;
  readonly #everyMs: number;
  readonly #fullMs: Map<string, number> = new Map();
  readonly #samples: WaitSamples = new WaitSamples();
  #state: TopState;
  #seenAtMs = 0;
  #asking = false;
  #askedAtMs = -Infinity;
  readonly #silence: Silence = new Silence();
  #end: (code: number) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  #redraw: () => void = () => {};
  #page = 10;

  constructor(io: Io, sort: Sort, store: OpenStore, prefix: string, everyMs: number) {
    this.#io = io;
    this.#store = store;
    this.#prefix = prefix;
    this.#everyMs = everyMs;
    this.#state = {
      url: maskSecrets(store.url),
      snapshot: undefined,
      ageMs: 0,
      sort,
      descending: isDescending(sort),
      filter: "",
      typing: false,
      offset: 0,
      paused: false,
      trouble: undefined,
      fullMs: this.#fullMs,
      waits: [],
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
      this.#samples.look(snapshot, this.#seenAtMs);
      this.#change({ snapshot, waits: this.#samples.rows(), trouble: undefined });
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
    const { descending, paused, offset } = this.#state;
    if (name === "q" || name === "escape") this.#end(EXIT.ok);
    else if (text === "/") this.#change({ typing: true });
    else if (name === "s") this.#nextSort();
    else if (name === "r") this.#change({ descending: !descending });
    else if (name === "space") this.#change({ paused: !paused });
    else if (name === "up" || name === "k") this.#scroll(offset - 1);
    else if (name === "down" || name === "j") this.#scroll(offset + 1);
    else if (name === "pageup") this.#scroll(offset - this.#page);
    else if (name === "pagedown") this.#scroll(offset + this.#page);
    else if (name === "home") this.#scroll(0);
    else if (name === "end") this.#scroll(Infinity);
  }

  #nextSort(): void {
    const { sort, descending } = this.#state;
    const next = SORTS[(SORTS.indexOf(sort) + 1) % SORTS.length] ?? "name";
    const isOther = sort === "wait" || next === "wait";
    this.#change({ sort: next, descending: isOther ? isDescending(next) : descending, offset: 0 });
  }

  #scroll(to: number): void {
    const last = Math.max(0, countRows(this.#state) - this.#page);
    this.#change({ offset: Math.min(last, Math.max(0, to)) });
  }

  #change(part: Partial<TopState>): void {
    this.#state = { ...this.#state, ...part };
  }
}
