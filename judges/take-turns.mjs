// Eight processes, four of Holdfast and four of another library, take turns on one lock, while some are killed and some are stopped for less than
// a ttl. The judge has the times at which each was inside, by the machine's monotonic clock, and nothing that a lock said.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { spread } from "../bench/lib/stats.mjs";

const SIDE = 4;
const TTL_MS = 1500;
const SECTION_MS = 10;
const THINK_MS = 20;
const STOP_MS = 400;
const END_MS = 30_000;

/** `theirs`, `ours`: a program and its arguments, to which the order is added. Returns what was found. */
export async function takeTurns({ ours, theirs, order, seconds }) {
  const common = { ...order, ttlMs: TTL_MS, sectionMs: SECTION_MS, thinkMs: THINK_MS };
  const workers = [];
  const enlist = (side) => workers.push(new Worker(side, side === "ours" ? ours : theirs, common));
  for (let i = 0; i < SIDE; i++) for (const side of ["ours", "theirs"]) enlist(side);
  try {
    // A runtime needs a while to start; from then on all take part.
    await allServed(workers);
    const strikes = Math.max(2, Math.floor(seconds / 3));
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
  return judge(workers);
}

async function allServed(workers) {
  const isMissing = ({ sections, killed }) => !killed && sections.length === 0;
  for (let i = 0; workers.some(isMissing) && i < 600; i++) await sleep(50);
}

function pick(workers, side) {
  const alive = workers.filter((worker) => worker.side === side && !worker.killed);
  return alive[Math.floor(Math.random() * alive.length)];
}

async function pause(worker) {
  worker.process.kill("SIGSTOP");
  await sleep(STOP_MS);
  worker.process.kill("SIGCONT");
}

class Worker {
  sections = [];
  killed = false;
  errors = "";
  #wanted = 0n;

  constructor(side, [program, ...args], order) {
    this.side = side;
    this.process = spawn(program, [...args, JSON.stringify(order)], { stdio: ["pipe", "pipe", "pipe"] });
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

  kill() {
    this.killed = true;
    this.process.kill("SIGKILL");
  }

  async end() {
    this.process.stdin.end();
    const late = setTimeout(() => this.kill(), END_MS);
    await this.exit;
    clearTimeout(late);
  }
}

/** A section that was never left, or whose lease was over before its end, proves nothing about what came during it. */
function judge(workers) {
  const all = workers.flatMap(({ sections }) => sections).sort((a, b) => (a.from < b.from ? -1 : 1));
  const whole = all.filter(({ to, lost }) => to !== undefined && lost !== true);
  const handOvers = { toOurs: [], toTheirs: [] };
  let [overlaps, unordered] = [0, 0];
  // Until when a process was inside, and until when one that was alone.
  let [inside, alone, fence] = [0n, 0n, 0n];
  for (const [at, section] of whole.entries()) {
    const isAlone = section.mode === "exclusive";
    if (section.from < (isAlone ? inside : alone)) overlaps++;
    if (section.fence !== undefined && section.fence <= fence) unordered++;
    fence = section.fence ?? fence;
    if (section.to > inside) inside = section.to;
    if (isAlone && section.to > alone) alone = section.to;
    const next = whole[at + 1];
    if (next === undefined || (!isAlone && next.mode === "shared") || next.from < inside) continue;
    // One that was killed inside held the lock until its ttl was over.
    if (all[all.indexOf(section) + 1] !== next) continue;
    if (next.wanted < section.to && next.side !== section.side)
      handOvers[next.side === "ours" ? "toOurs" : "toTheirs"].push(Number(next.from - section.to) / 1e6);
  }
  const survivors = workers.filter(({ killed }) => !killed);
  return {
    ours: whole.filter(({ side }) => side === "ours").length,
    theirs: whole.filter(({ side }) => side === "theirs").length,
    fewest: Math.min(...survivors.map(({ sections }) => sections.length)),
    kills: workers.length - survivors.length,
    lost: all.filter(({ lost }) => lost === true).length,
    overlaps,
    unordered,
    handOvers,
    sections: whole,
    errors: survivors.map(({ errors }) => errors).filter((text) => text !== ""),
  };
}

/** The times of hand-overs to one side, for the table. */
export function handOver(gaps) {
  if (gaps.length === 0) return "–";
  const { p50, p99 } = spread(gaps);
  return `${p50.toFixed(1)} / ${p99.toFixed(1)} ms (${gaps.length})`;
}
