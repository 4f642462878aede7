// Processes of Holdfast and as many of another library take turns on one lock, while some are killed and some are stopped for less than a ttl.
// The judge has the times at which each was inside, by the machine's monotonic clock, and nothing that a lock said.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { spread } from "../bench/lib/stats.mjs";
import { judge } from "./sections.mjs";

const SIDE = 4;
const TTL_MS = 1500;
const SECTION_MS = 10;
const THINK_MS = 20;
const STOP_MS = 400;
const END_MS = 30_000;
/** So long a process that starts may take until it was inside once: a busy machine is no finding. */
const SERVED_MS = 120_000;
/** One of each side, with sections so long that who only polls has come to ask seldom. */
const DUEL_MS = 8000;
const DUEL_SECTION_MS = 400;
/** By polls half of the hand-overs would take longer. */
const WOKEN_MS = 100;

/**
 * `theirs`, `ours`: a program and its arguments, to which the order is added. `side`: how many of each. `order.limit`: how many may be inside at
 * once. `duels`: also how long hand-overs between two take. Returns what was found.
 */
export async function takeTurns({
  ours,
  theirs,
  order,
  seconds,
  side: processes = SIDE,
  strikes = strikesIn(seconds),
  duels = (order.limit ?? 1) === 1,
}) {
  const common = { ttlMs: TTL_MS, sectionMs: SECTION_MS, thinkMs: THINK_MS, ...order };
  const workers = [];
  const enlist = (side) => workers.push(new Worker(side, side === "ours" ? ours : theirs, common));
  for (let i = 0; i < processes; i++) for (const side of ["ours", "theirs"]) enlist(side);
  try {
    // A runtime needs a while to start; from then on all take part.
    await allServed(workers);
    for (let i = 0; i < strikes; i++) {
      await sleep((seconds * 1000) / strikes / 2);
      for (const side of ["ours", "theirs"]) await pause(pick(workers, side));
      await sleep((seconds * 1000) / strikes / 2);
      for (const side of ["ours", "theirs"]) {
        pick(workers, side).kill();
        enlist(side);
      }
    }
    await sleep(TTL_MS * 2);
    await allServed(workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
  const found = judge(workers, order.limit);
  return duels ? { ...found, duel: await duel({ ours, theirs, order }) } : found;
}

/** How long hand-overs take where one of each side is alone with the other, so that no third one comes first. */
async function duel({ ours, theirs, order }) {
  const terms = { ...order, ttlMs: TTL_MS, sectionMs: DUEL_SECTION_MS, thinkMs: THINK_MS };
  const workers = [new Worker("ours", ours, terms), new Worker("theirs", theirs, terms)];
  try {
    await allServed(workers);
    await sleep(DUEL_MS);
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
  return judge(workers).handOvers;
}

function strikesIn(seconds) {
  return Math.max(2, Math.floor(seconds / 3));
}

async function allServed(workers) {
  const isMissing = ({ sections, killed }) => !killed && sections.length === 0;
  for (let i = 0; workers.some(isMissing) && i < SERVED_MS / 50; i++) await sleep(50);
}

function pick(workers, side) {
  const alive = workers.filter((worker) => worker.side === side && !worker.killed);
  return alive[Math.floor(Math.random() * alive.length)];
}

async function pause(worker) {
  worker.signal("SIGSTOP");
  await sleep(STOP_MS);
  worker.signal("SIGCONT");
}

class Worker {
  sections = [];
  killed = false;
  errors = "";
  #wanted = 0n;

  constructor(side, [program, ...args], order) {
    this.side = side;
    // In a group of its own: what it has started is stopped and killed with it.
    const options = { stdio: ["pipe", "pipe", "pipe"], detached: true };
    this.process = spawn(program, [...args, JSON.stringify(order)], options);
    this.process.stdin.on("error", () => {});
    this.process.stderr.on("data", (text) => (this.errors = (this.errors + text).slice(-2000)));
    this.exit = new Promise((resolve) => this.process.on("close", resolve));
    createInterface(this.process.stdout).on("line", (line) => this.#read(line));
  }

  #read(line) {
    // Behind the time of "in": "shared" or "exclusive", and the fence, where there are any.
    const [word, time, mode = "exclusive", fence] = line.split(" ");
    if (word === "want") this.#wanted = BigInt(time);
    else if (word === "in")
      this.sections.push({
        side: this.side,
        wanted: this.#wanted,
        from: BigInt(time),
        mode,
        fence: fence && BigInt(fence),
      });
    else if (word === "out") this.sections.at(-1).to = BigInt(time);
    else if (word === "lost") this.sections.at(-1).lost = true;
  }

  signal(name) {
    try {
      process.kill(-this.process.pid, name);
    } catch {
      // It has ended.
    }
  }

  kill() {
    this.killed = true;
    this.signal("SIGKILL");
  }

  async end() {
    this.process.stdin.end();
    const late = setTimeout(() => this.kill(), END_MS);
    await this.exit;
    clearTimeout(late);
  }
}

/** The columns that the tables of all such runs have. `theirs`: what the other side is called. */
export function columnsOf(found, theirs = "theirs") {
  return {
    "sections of Holdfast": found.ours,
    [`of ${theirs}`]: found.theirs,
    "fewest of one process": found.fewest,
    killed: found.kills,
    "not judged": found.lost,
    overlaps: found.overlaps,
    [`hand-over to ${theirs}, p50 / p99`]: handOver(found.handOvers.toTheirs),
    "to Holdfast, p50 / p99": handOver(found.handOvers.toOurs),
    [`between two: to ${theirs}, p50`]: median(found.duel?.toTheirs),
    "between two: to Holdfast, p50": median(found.duel?.toOurs),
  };
}

/** What is wrong with what was found. `wakes`: which of the sides hears of a release, and does not have to ask. */
export function findingsOf(label, found, wakes) {
  const { overlaps, unordered, fewest, duel: between } = found;
  const errors = found.errors.map(withoutLogger).filter((text) => text !== "");
  const findings = [];
  if (overlaps > 0) findings.push(`${overlaps} sections overlapped`);
  if (unordered > 0) findings.push(`${unordered} fences were not greater than the one before`);
  if (fewest === 0) findings.push("a process was never served");
  if (wakes.ours && isLate(between.toOurs)) findings.push("their releases do not wake ours");
  if (wakes.theirs && isLate(between.toTheirs)) findings.push("our releases do not wake theirs");
  if (errors.length > 0) findings.push(errors[0]);
  return findings.map((text) => `${label}: ${text}`);
}

/** Programs in Java are used without a logger here, and SLF4J says so. */
function withoutLogger(text) {
  return text.replaceAll(/^SLF4J.*$/gmu, "").trim();
}

function isLate(gaps) {
  return gaps.length === 0 || spread(gaps).p50 > WOKEN_MS;
}

function median(gaps = []) {
  return gaps.length === 0 ? "–" : `${spread(gaps).p50.toFixed(1)} ms`;
}

function handOver(gaps) {
  if (gaps.length === 0) return "–";
  const { p50, p99 } = spread(gaps);
  return `${p50.toFixed(1)} / ${p99.toFixed(1)} ms (${gaps.length})`;
}
