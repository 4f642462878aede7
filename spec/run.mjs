/**
 * Searches the models in this folder exhaustively with Spin, and says which hold and which must not.
 *
 *     node spec/run.mjs            full size; prints states, and whether the search was complete
 *     node spec/run.mjs --small    the sizes that the tests use
 *     node spec/run.mjs --json     one JSON object per line
 *     node spec/run.mjs ballots    only the checks whose name contains this
 *
 * Needs `spin` and `gcc` (Debian: apt-get install spin gcc). Exits 1 when a check does not come out as it must: a rule
 * that must hold and does not, a search that did not complete, or a broken rule that the search no longer notices.
 */
import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const HERE = dirname(fileURLToPath(import.meta.url));
const DEPTH = 20_000_000;
const MEMORY_MB = 12_000;

/**
 * `must`: "hold" or "fail". `sizes`: more defines, by size; absent: the model's own. `isLarge`: the small search is still so large that
 * a compiler that optimizes pays.
 */
const CHECKS = [
  {
    name: "ballots: fences rise though holds end at any moment",
    model: "fences.pml",
    defines: ["BALLOT", "EARLY"],
    sizes: { small: ["K=2"], full: ["K=3", "TOP=4"] },
    must: "hold",
  },
  {
    name: "ballots: exclusion and order while holds end in time",
    model: "fences.pml",
    defines: ["BALLOT"],
    sizes: { small: ["K=3", "TOP=3"], full: ["K=3", "TOP=4"] },
    must: "hold",
    isLarge: true,
  },
  {
    name: "ballots: members forget ballots that became no lease",
    model: "fences.pml",
    defines: ["BALLOT", "EARLY", "WITHDRAW"],
    sizes: { small: ["K=2"], full: ["K=3", "TOP=3"] },
    must: "hold",
  },
  {
    name: "ballots: members forget ballots that became no lease, holds end in time",
    model: "fences.pml",
    defines: ["BALLOT", "WITHDRAW"],
    sizes: { small: ["K=2"], full: ["K=3", "TOP=3"] },
    must: "hold",
  },
  {
    name: "ballots: members forget ballots of leases too",
    model: "fences.pml",
    defines: ["BALLOT", "EARLY", "WITHDRAW", "CARELESS"],
    must: "fail",
  },
  {
    name: "ballots: five members",
    model: "fences.pml",
    defines: ["BALLOT", "EARLY", "N=5"],
    sizes: { small: ["K=2", "TOP=2"], full: ["K=2", "TOP=4"] },
    must: "hold",
    isLarge: true,
  },
  {
    name: "ballots: four attempts",
    model: "fences.pml",
    defines: ["BALLOT", "EARLY", "K=4", "TOP=3"],
    must: "hold",
    onlyFull: true,
  },
  {
    name: "the greatest of per-member counters",
    model: "fences.pml",
    defines: ["MAXIMUM"],
    must: "fail",
  },
  {
    name: "the greatest of per-member counters, holds end at any moment",
    model: "fences.pml",
    defines: ["MAXIMUM", "EARLY"],
    must: "fail",
  },
  {
    name: "the greatest of per-member counters, written back to a majority",
    model: "fences.pml",
    defines: ["WRITEBACK"],
    must: "fail",
  },
  {
    name: "ballots whose order members do not check",
    model: "fences.pml",
    defines: ["BALLOT", "UNORDERED", "EARLY"],
    must: "fail",
  },
  {
    name: "ballots without a floor of time, where a member forgets",
    model: "fences.pml",
    defines: ["BALLOT", "FORGETS", "EARLY"],
    must: "fail",
  },
  {
    name: "exclusion while no server forgets",
    model: "restarts.pml",
    defines: [],
    sizes: { small: ["TTL=1"], full: ["TTL=3"] },
    must: "hold",
  },
  {
    name: "exclusion with restarts and no quarantine",
    model: "restarts.pml",
    defines: ["RESTARTS", "QUARANTINE=0", "TTL=2"],
    must: "fail",
  },
  {
    name: "exclusion with restarts and a quarantine shorter than the ttl",
    model: "restarts.pml",
    defines: ["RESTARTS", "QUARANTINE=1", "TTL=2"],
    must: "fail",
  },
  {
    name: "exclusion with restarts and a quarantine of one ttl",
    model: "restarts.pml",
    defines: ["RESTARTS"],
    sizes: { small: ["TTL=1", "QUARANTINE=1"], full: ["TTL=2", "QUARANTINE=2"] },
    must: "hold",
    isLarge: true,
  },
  {
    name: "exclusion with restarts and a quarantine of one ttl, five members",
    model: "restarts.pml",
    defines: ["RESTARTS", "TTL=1", "QUARANTINE=1", "N=5"],
    must: "hold",
    onlyFull: true,
  },
  {
    name: "exclusion where one member's clock jumps",
    model: "restarts.pml",
    defines: ["JUMP=1", "TTL=1"],
    must: "fail",
  },
  {
    name: "outcomes: no work begins while one is kept, and no lease leaves two",
    model: "outcomes.pml",
    defines: [],
    sizes: { small: ["C=2", "F=3"], full: ["C=3", "F=4"] },
    must: "hold",
  },
  {
    name: "outcomes: beside a claim that wants none",
    model: "outcomes.pml",
    defines: [],
    sizes: { small: ["C=3", "W=2", "F=2"], full: ["C=3", "W=2", "F=4"] },
    must: "hold",
  },
  {
    name: "outcomes: stored in a second step, after the lease has ended",
    model: "outcomes.pml",
    defines: ["SPLIT"],
    must: "fail",
  },
  {
    name: "outcomes: taken from a claim that holds no longer",
    model: "outcomes.pml",
    defines: ["UNCHECKED"],
    must: "fail",
  },
  {
    name: "outcomes: looked for before the lock is asked for",
    model: "outcomes.pml",
    defines: ["LOOKFIRST"],
    must: "fail",
  },
  {
    name: "outcomes: the lock is handed to a waiter that wants the outcome",
    model: "outcomes.pml",
    defines: ["HANDOVER"],
    must: "fail",
  },
  {
    name: "outcomes: a grant is believed after its lease",
    model: "outcomes.pml",
    defines: ["LATE"],
    must: "fail",
  },
  {
    name: "outcomes: of one work only one, where the release names its fence",
    model: "outcomes.pml",
    defines: ["PERWORK", "FENCED", "C=3", "F=4"],
    must: "hold",
    onlyFull: true,
  },
  {
    name: "outcomes: of one work only one, where the release names no fence",
    model: "outcomes.pml",
    defines: ["PERWORK"],
    must: "fail",
  },
  {
    name: "wanted: every hint is lost",
    model: "wanted.pml",
    defines: ["LOST"],
    sizes: { small: [], full: ["TTL=6", "WORK=5", "LINGER=4"] },
    must: "hold",
  },
  {
    name: "wanted: some hints arrive",
    model: "wanted.pml",
    defines: ["TTL=6", "WORK=5", "LINGER=4"],
    must: "hold",
    onlyFull: true,
  },
  {
    name: "wanted: neither hints nor renewals say it, and no more work comes",
    model: "wanted.pml",
    defines: ["LOST", "NOBIT", "ONCE"],
    must: "hold",
    onlyFull: true,
  },
  {
    name: "wanted: neither hints nor renewals say it, and more work comes",
    model: "wanted.pml",
    defines: ["LOST", "NOBIT"],
    must: "fail",
  },
  {
    name: "wanted: a lease that is kept until it is known to be wanted",
    model: "wanted.pml",
    defines: ["LOST", "NOBIT", "ONCE", "FOREVER"],
    must: "fail",
  },
  {
    name: "wanted: a holder that goes on though it knows",
    model: "wanted.pml",
    defines: ["DEAF"],
    must: "fail",
  },
];

const args = process.argv.slice(2);
const size = args.includes("--small") ? "small" : "full";
const asJson = args.includes("--json");
const only = args.find((arg) => !arg.startsWith("--")) ?? "";
const chosen = CHECKS.filter((check) => check.name.includes(only) && (size === "full" || check.onlyFull !== true));

if (!asJson) console.log(`${"".padEnd(7)}${"states".padStart(12)}  ${"seconds".padStart(7)}  check`);
let wrong = chosen.length === 0 ? 1 : 0;
for (const check of chosen) {
  const outcome = await search(check);
  if (!outcome.asItMust) wrong++;
  console.log(asJson ? JSON.stringify(outcome) : line(outcome));
}
if (!asJson) console.log(wrong === 0 ? "\nAll came out as they must." : `\n${wrong} did not come out as they must.`);
process.exitCode = wrong === 0 ? 0 : 1;

/** Lets Spin write the search as a C program, builds it, and runs it. */
async function search({ name, model, defines, sizes, must, isLarge }) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-spec-"));
  const all = [...defines, ...(sizes?.[size] ?? [])];
  const flags = all.map((define) => `-D${define}`);
  try {
    await run("spin", ["-a", ...flags, join(HERE, model)], { cwd: folder });
    // Partial order reduction has nothing to reduce in a model of one process.
    const effort = isLarge === true ? "-O1" : "-O0";
    const options = [size === "small" ? effort : "-O2", "-w", "-DSAFETY", "-DNOREDUCE", `-DMEMLIM=${MEMORY_MB}`];
    await run("gcc", [...options, "-o", "search", "pan.c"], { cwd: folder });
    const started = performance.now();
    const depth = size === "small" ? 1_000_000 : DEPTH;
    const report = await output("nice", ["./search", `-m${depth}`, size === "small" ? "-w20" : "-w26"], folder);
    return { name, must, defines: all, ...judge(report, must), seconds: (performance.now() - started) / 1000 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Spin's search exits with 0 whatever it finds: its words tell. */
function judge(report, must) {
  const errors = Number(/errors: (\d+)/.exec(report)?.[1] ?? Number.NaN);
  const states = Number(/^\s*([\d.e+]+) states, stored/m.exec(report)?.[1] ?? Number.NaN);
  if (Number.isNaN(errors) || Number.isNaN(states)) throw new Error(`Spin said something unexpected:\n${report}`);
  const violated = /assertion violated (.*)/.exec(report)?.[1];
  const complete = !/Search not completed|max search depth too small|out of memory|interrupted/.test(report);
  const asItMust = must === "hold" ? errors === 0 && complete : violated !== undefined;
  return { asItMust, holds: errors === 0, complete, states, violated };
}

function output(program, programArgs, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, programArgs, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (data) => (text += data));
    child.stderr.on("data", (data) => (text += data));
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
}

function line({ name, must, asItMust, holds, complete, states, seconds, defines }) {
  const mark = asItMust ? "ok" : "WRONG";
  const found = holds ? `holds, ${complete ? "search complete" : "SEARCH INCOMPLETE"}` : "violated";
  return `${mark.padEnd(7)}${String(states).padStart(12)}  ${seconds.toFixed(1).padStart(7)}  ${name} [${defines.join(" ")}]: ${found}, must ${must}`;
}
