/** What happens in a round, and when: made from the seed alone, before anything begins. */
import type { Mode } from "../../contract/backend.ts";
import { seeded, type SeededChance } from "../../testing/seeded-random.ts";
import type { Direction } from "../roads.ts";

/** Which of a client's connections: those for commands, those for messages, or all. */
export type Which = "commands" | "messages" | "all";

/** Takes a lock, works, and leaves. */
export interface Take {
  readonly do: "take";
  readonly how: "run" | "acquire" | "try" | "elect";
  readonly locks: readonly string[];
  readonly mode: Mode;
  readonly limit: number;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly holdMs: number;
  readonly renews: boolean;
  readonly maxHoldMs: number | undefined;
  /** The caller loses interest after this long. */
  readonly abortMs: number | undefined;
  /** Goes on working after its lease was reported lost. */
  readonly deaf: boolean;
  /** Enters again inside its own function. */
  readonly nests: boolean;
  readonly throws: boolean;
  readonly ends: "release" | "twice" | "dispose";
  /** What its abort listener does. `undefined`: it has none. */
  readonly onLost: "nothing" | "release" | "release others" | "take" | "close" | undefined;
  /** How long its hold lingers. */
  readonly lingerMs?: number;
}

export type NetworkAct =
  /** Nothing passes, and it all comes late. */
  | { readonly do: "stall"; readonly which: Which; readonly direction: Direction | "both"; readonly forMs: number }
  /** Commands and messages stall together; commands flow again first. */
  | { readonly do: "overtake"; readonly commandsMs: number; readonly messagesMs: number }
  | { readonly do: "reset"; readonly which: Which }
  /** What is under way is lost, and then the connection ends: a client library may send it again. */
  | { readonly do: "lose"; readonly which: Which; readonly direction: Direction; readonly forMs: number }
  | { readonly do: "slow"; readonly which: Which; readonly byMs: number; readonly forMs: number }
  | { readonly do: "refuse"; readonly forMs: number };

export type ServerAct = "pause" | "restart" | "flush" | "fail over";
export type ProcessAct = "stop" | "kill";

export type Act =
  | Take
  | { readonly do: "force"; readonly lock: string }
  | { readonly do: "block"; readonly forMs: number }
  | { readonly do: "close"; readonly force: boolean }
  /** `server`: one of them, or all. */
  | ({ readonly server: number | undefined } & NetworkAct)
  | { readonly do: "server"; readonly what: ServerAct; readonly server: number; readonly forMs: number }
  | { readonly do: "process"; readonly what: ProcessAct; readonly forMs: number };

export interface Step {
  readonly n: number;
  readonly atMs: number;
  readonly client: number;
  readonly act: Act;
}

/** What a store can go through with its promises kept. */
export interface Possibilities {
  readonly clients: number;
  readonly servers: number;
  readonly serverActs: readonly ServerAct[];
  readonly processActs: readonly ProcessAct[];
  readonly network: boolean;
  readonly limits: boolean;
  /** Lease times that the store can give, ms. */
  readonly ttls: readonly number[];
  /** A restart or a fail-over may forget leases. No two processes hold them then, but their holders may lose them early. */
  readonly mayForget?: boolean | undefined;
  /** Its holds can linger. */
  readonly linger?: boolean | undefined;
}

export interface Schedule {
  readonly seed: number;
  readonly ttlMs: number;
  readonly lengthMs: number;
  /** How many fences a grant reserves, where the store lets us choose. */
  readonly run: number;
  /** True: the faults are healed only after all have given up. */
  readonly darkEnd: boolean;
  readonly steps: readonly Step[];
}

/** How many rounds have holds that linger. */
const LINGERING = 0.5;

export function scheduleOf(seed: number, possible: Possibilities): Schedule {
  const chance = seeded(seed);
  const ttlMs = chance.pick(possible.ttls);
  const lengthMs = ttlMs * 5;
  const run = chance.pick([1, 2, 64]);
  const darkEnd = possible.network && chance.happens(0.08);
  const busyMs = chance.pick([40, 80, 160]);
  const faultMs = ttlMs / chance.pick([0.5, 1, 2, 3]);
  const timed: Omit<Step, "n">[] = [];
  for (let client = 0; client < possible.clients; client++) {
    for (let atMs = chance.between(0, busyMs); atMs < lengthMs; atMs += chance.between(0, 2 * busyMs))
      timed.push({ atMs, client, act: userAct(chance, ttlMs, possible) });
  }
  for (let atMs = chance.between(0, faultMs); atMs < lengthMs; atMs += chance.between(0, 2 * faultMs)) {
    const client = Math.floor(chance.between(0, possible.clients));
    const act = faultAct(chance, ttlMs, possible);
    if (act !== undefined) timed.push({ atMs, client, act });
  }
  const steps = timed.toSorted((a, b) => a.atMs - b.atMs).map((step, i) => ({ ...step, n: i + 1 }));
  return {
    seed,
    ttlMs,
    lengthMs,
    run,
    darkEnd,
    steps: possible.linger === true ? lingering(steps, seed, ttlMs) : steps,
  };
}

/** In some rounds holds linger. Drawn separately, so that all else of a round stays what it was. */
function lingering(steps: readonly Step[], seed: number, ttlMs: number): readonly Step[] {
  const chance = seeded(seed ^ 0x2545f491);
  if (!chance.happens(LINGERING)) return steps;
  const longestMs = Math.floor(ttlMs * chance.pick([0.02, 0.1, 0.1]));
  return steps.map((step): Step => {
    const { act } = step;
    // Most of a round agree: only those pass a hold on in memory.
    const lingerMs = chance.happens(0.85) ? longestMs : chance.pick([0, 5]);
    return act.do === "take" && mayLinger(act) ? { ...step, act: { ...act, lingerMs } } : step;
  });
}

/** What does not linger is refused by its arguments. */
function mayLinger({ how, mode, limit, renews, maxHoldMs }: Take): boolean {
  return how !== "elect" && mode === "exclusive" && limit === 1 && renews && maxHoldMs === undefined;
}

function userAct(chance: SeededChance, ttlMs: number, possible: Possibilities): Act {
  const dice = chance.fraction();
  if (dice < 0.015) return { do: "close", force: chance.happens(0.3) };
  if (dice < 0.025) return { do: "force", lock: chance.pick(["job", "other"]) };
  if (dice < 0.03) return { do: "block", forMs: chance.between(ttlMs / 10, ttlMs * 1.2) };
  const locks = pickLocks(chance, possible.limits);
  const how = chance.pick(["run", "run", "run", "acquire", "acquire", "acquire", "try", "elect"] as const);
  const maybe = <T>(probability: number, value: T): T | undefined => (chance.happens(probability) ? value : undefined);
  return {
    do: "take",
    how: locks.length > 1 && how === "elect" ? "run" : how,
    locks,
    mode: locks[0] === "books" && chance.happens(0.6) ? "shared" : "exclusive",
    limit: locks[0] === "pool" ? 2 : 1,
    ttlMs,
    waitMs: Math.ceil(chance.between(1, ttlMs * chance.pick([1, 1, 4]))),
    holdMs: chance.between(0, ttlMs * chance.pick([0.05, 0.1, 0.1, 0.1, 0.5, 2])),
    renews: !chance.happens(0.1),
    maxHoldMs: maybe(0.08, Math.ceil(chance.between(100, ttlMs * 2))),
    abortMs: maybe(0.2, chance.between(0, ttlMs * 2)),
    deaf: chance.happens(0.25),
    nests: chance.happens(0.15),
    throws: chance.happens(0.1),
    ends: chance.pick(["release", "release", "release", "release", "twice", "dispose"] as const),
    onLost: maybe(0.7, chance.pick(["nothing", "nothing", "release", "release others", "take", "close"] as const)),
  };
}

function pickLocks(chance: SeededChance, limits: boolean): readonly string[] {
  const dice = chance.fraction();
  if (dice < 0.1) return ["job", "other"];
  if (dice < 0.25) return ["books"];
  if (dice < 0.4) return [limits ? "pool" : "other"];
  return [dice < 0.5 ? "other" : "job"];
}

function faultAct(chance: SeededChance, ttlMs: number, possible: Possibilities): Act | undefined {
  const dice = chance.fraction();
  if (possible.serverActs.length > 0 && dice < 0.1) {
    const server = Math.floor(chance.between(0, possible.servers));
    return {
      do: "server",
      what: chance.pick(possible.serverActs),
      server,
      forMs: chance.between(ttlMs / 5, ttlMs * 2),
    };
  }
  if (possible.processActs.length > 0 && (!possible.network || dice < 0.3)) {
    return { do: "process", what: chance.pick(possible.processActs), forMs: chance.between(ttlMs / 10, ttlMs * 2) };
  }
  if (!possible.network) return undefined;
  const server = chance.happens(0.5) ? undefined : Math.floor(chance.between(0, possible.servers));
  return { server, ...networkAct(chance, ttlMs) };
}

function networkAct(chance: SeededChance, ttlMs: number): NetworkAct {
  const which = chance.pick(["commands", "commands", "messages", "all"] as const);
  const direction = chance.pick(["requests", "replies"] as const);
  const kind = chance.pick([
    "stall",
    "stall",
    "overtake",
    "overtake",
    "reset",
    "lose",
    "lose",
    "slow",
    "refuse",
  ] as const);
  switch (kind) {
    case "stall": {
      const longest = which === "messages" ? 4 : 2.5;
      const all = chance.happens(0.4) ? ("both" as const) : direction;
      return { do: kind, which, direction: all, forMs: chance.between(ttlMs / 5, ttlMs * longest) };
    }
    case "overtake": {
      const commandsMs = chance.between(ttlMs / 4, ttlMs * 2.5);
      return { do: kind, commandsMs, messagesMs: commandsMs + chance.between(ttlMs / 50, ttlMs) };
    }
    case "reset":
      return { do: kind, which };
    case "lose":
      return { do: kind, which, direction, forMs: chance.between(1, ttlMs / 2) };
    case "slow":
      return { do: kind, which, byMs: chance.between(2, ttlMs / 4), forMs: chance.between(ttlMs / 2, ttlMs * 2) };
    case "refuse":
      return { do: kind, forMs: chance.between(ttlMs / 10, ttlMs) };
  }
}
