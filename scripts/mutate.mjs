// Puts small bugs into the code, one at a time, in a copy, and reports those that the nearest tests do not notice.
//
//   npm run mutate -- --files 'src/contract/*.ts,src/core/*.ts' --sample 150     of all mutants of the core, 150 by dice
//   npm run mutate -- --files 'src/backends/redis/**' --sample 100 TypeScript and Lua
//   npm run mutate -- --files src/core/hold.ts                 every mutant of one file
//   npm run mutate -- --planted                           the bugs of scripts/mutate/planted.mjs: each must be noticed
//   … --planted --only hole-5                             those whose name begins so
//   … --seed 2                                            another sample (1)
//   … --results file.jsonl                                goes on where an earlier run with this file stopped
//   … --quick                                             without the slow tests, and without Vitest; a later run without
//                                                         it looks at survivors only
//   … --tests a.test.ts,b.test.ts                         these instead of the nearest
//   … --list                                              shows the mutants and runs nothing
//   … --workers 1                                         mutants at a time (2)
//   … --json                                              one JSON line for each mutant, and one for the sum
//
// A mutant counts as caught when a test is red, or does not end where it ends without the bug. Exit code 1: tests are red without
// any bug, so that nothing can be said; 2: a planted bug was not noticed.
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { argumentsOf } from "./arguments.mjs";
import "./ensure-built.mjs";
import { luaMutants } from "./mutate/lua.mjs";
import { inGroups, SLOW_TESTS, testsOf } from "./mutate/nearest.mjs";
import { planted } from "./mutate/planted.mjs";
import { apply, typescriptMutants } from "./mutate/typescript.mjs";
import { Workshop } from "./mutate/workshop.mjs";

const { values } = argumentsOf(import.meta.url, {
  options: {
    files: { type: "string", multiple: true, default: [] },
    sample: { type: "string", default: "0" },
    seed: { type: "string", default: "1" },
    planted: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    results: { type: "string" },
    tests: { type: "string" },
    workers: { type: "string", default: "2" },
    quick: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
if (values.planted === values.files.length > 0) throw new TypeError("Expected either --files or --planted");

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (file) => readFileSync(join(root, file), "utf8");
const sha1 = (text) => createHash("sha1").update(text).digest("hex");
/** A test may take this much longer than it did without a bug. */
const SLACK = 4;
const SLACK_MS = 60_000;
const TEST_SLACK_MS = 30_000;
/** What is red no later than this after the usual time was not waiting for a busy machine. */
const SOON_MS = 5000;

/** Where a mutant is and what it changes. Its key survives changes elsewhere in the file. */
function described(file, text, mutant) {
  const lineStart = text.lastIndexOf("\n", mutant.start - 1) + 1;
  const line = text.slice(0, mutant.start).split("\n").length;
  const whole = text.slice(lineStart, text.indexOf("\n", mutant.start));
  const from = text.slice(mutant.start, mutant.end).replaceAll(/\s+/g, " ");
  const key = sha1([file, whole.trim(), mutant.start - lineStart, mutant.end - mutant.start, mutant.put].join("\0"));
  return { key, file, line, how: mutant.how, from, to: mutant.put.replaceAll(/\s+/g, " "), text: apply(text, mutant) };
}

function mutantsOf(file) {
  const text = read(file);
  const mutants = file.endsWith(".lua") ? luaMutants(text) : typescriptMutants(file, text);
  const seen = new Map();
  return mutants.map((mutant) => {
    const { key, ...rest } = described(file, text, mutant);
    // Equal lines are distinguished by their order.
    const nth = seen.get(key) ?? 0;
    seen.set(key, nth + 1);
    return { key: nth === 0 ? key : `${key}-${nth}`, ...rest };
  });
}

/** `*` stands for a part of a name, `**` for any path. */
function matcher(pattern) {
  const parts = pattern
    .split(/(\*\*|\*)/)
    .map((part) => ({ "*": "[^/]*", "**": ".*" })[part] ?? RegExp.escape?.(part) ?? escaped(part));
  return new RegExp(`^${parts.join("")}$`);
}
function escaped(text) {
  return text.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`);
}

function sampled() {
  const patterns = values.files.flatMap((list) => list.split(",")).map(matcher);
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .map((path) => `src/${path}`)
    .filter((path) => /\.(?:ts|lua)$/.test(path) && !/\/generated\/|\/index\.ts$/.test(path))
    .filter((path) => patterns.some((pattern) => pattern.test(path)))
    .toSorted();
  if (files.length === 0) throw new TypeError(`No source matches ${values.files.join(" ")}`);
  const all = files.flatMap(mutantsOf);
  const most = Number(values.sample) || all.length;
  const dice = (mutant) => sha1(`${values.seed} ${mutant.key}`);
  return { of: all.length, mutants: all.toSorted((a, b) => (dice(a) < dice(b) ? -1 : 1)).slice(0, most) };
}

function fromPlanted() {
  const mutants = planted
    .filter(({ name }) => name.startsWith(values.only))
    .map(({ name, file, find, put, tests }) => {
      const text = read(file);
      const start = text.indexOf(find);
      if (start < 0 || text.includes(find, start + 1)) {
        throw new Error(`planted.mjs, ${name}: expected ${file} to contain exactly once: ${find}`);
      }
      const gone = (tests ?? []).filter((test) => !existsSync(join(root, test)));
      if (gone.length > 0) throw new Error(`planted.mjs, ${name}: there is no ${gone.join(", ")}`);
      return { ...described(file, text, { start, end: start + find.length, put, how: name }), tests };
    });
  return { of: mutants.length, mutants };
}

const { of, mutants } = values.planted ? fromPlanted() : sampled();
const show = ({ file, line, how, from, to }) => `${file}:${line}  ${how}: ${from.slice(0, 100)} → ${to.slice(0, 100)}`;
if (values.list) {
  for (const mutant of mutants) console.log(show(mutant));
  process.exit();
}

// A priority that was chosen for it stays.
if (getPriority() === 0) setPriority(10);
/** By key: what an earlier run found. */
const known = new Map();
/** By key: those for which the quick tests were green. */
const livedQuick = new Set();
if (values.results !== undefined && existsSync(values.results)) {
  for (const line of readFileSync(values.results, "utf8").split("\n")) {
    if (line === "") continue;
    const outcome = JSON.parse(line);
    // What only the quick tests let live has not been judged yet.
    if (outcome.anyway === undefined && (outcome.caught || !outcome.quick || values.quick))
      known.set(outcome.key, outcome);
    else if (outcome.anyway === undefined) livedQuick.add(outcome.key);
  }
}
const without = values.quick ? SLOW_TESTS : [];
const times = new Map();
const mostMs = new Map();
const catches = new Map();
const outcomes = [];
const queue = mutants.filter(({ key }) => !known.has(key));
for (const { key } of mutants) if (known.has(key)) outcomes.push(known.get(key));
const workshops = [];
// Before the first copy is made: a signal that comes meanwhile waits for it, and then it is removed.
process.once("exit", () => {
  for (const workshop of workshops) workshop.remove();
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));
const wanted = Math.min(Number(values.workers), Math.max(1, queue.length));
while (workshops.length < wanted) workshops.push(new Workshop(root, values.quick));

/** What the quick tests let live is tried with the others. */
function testsFor({ key, file, tests }) {
  if (values.tests !== undefined) return values.tests.split(",");
  if (tests !== undefined) return tests;
  const all = testsOf(root, file, values.quick);
  if (!livedQuick.has(key)) return all;
  const tried = new Set(testsOf(root, file, true));
  return all.filter((test) => !tried.has(test));
}

/** Without a bug every test must be green, and takes so long. */
async function calibrate() {
  const tests = [...new Set(queue.flatMap(testsFor))];
  const shares = workshops.map((_, index) => tests.filter((_test, at) => at % workshops.length === index));
  const answers = await Promise.all(
    workshops.map(async (workshop, index) =>
      shares[index].length > 0 ? await workshop.test(shares[index], 1_200_000, { without }) : undefined,
    ),
  );
  for (const answer of answers) {
    for (const [test, ms] of answer?.times ?? []) {
      times.set(test, ms);
      // Nearly every bug that is noticed by waiting is noticed long before the usual limit of a test.
      mostMs.set(test, ms * SLACK + TEST_SLACK_MS);
    }
    if (answer?.red) {
      console.error(`Red without any bug: ${answer.red.test}\n${answer.red.message}`);
      process.exit(1);
    }
  }
}

/** The red test of these files, if any. It must be red a second time, alone: else something that ran before it was in its way. */
async function firstRed(workshop, { files, ms }) {
  const limitMs = ms * SLACK + SLACK_MS;
  const { red } = await workshop.test(files, limitMs, { without, mostMs });
  if (red === undefined) return undefined;
  const at = files.indexOf(red.test.split(":")[0]);
  const again = await redAgain(workshop, at < 0 ? files : [files[at]], limitMs);
  if (again !== undefined || at < 0) return again;
  for (const file of files.slice(at + 1)) {
    const { red: alone } = await workshop.test([file], limitMs, { without, mostMs });
    if (alone !== undefined) return await redAgain(workshop, [file], limitMs);
  }
  return undefined;
}

/** What is red after a long time may be red because the machine is busy: then it is red without the bug, too, and says nothing. */
async function redAgain(workshop, files, limitMs) {
  const startedMs = Date.now();
  const { red } = await workshop.test(files, limitMs, { without, mostMs });
  const usualMs = files.reduce((sum, file) => sum + (times.get(file) ?? 0), 0);
  if (red === undefined || Date.now() - startedMs < usualMs + SOON_MS) return red;
  const { red: anyway } = await workshop.unbroken(() => workshop.test(files, limitMs, { without, mostMs }));
  return anyway === undefined ? red : { ...red, anyway: anyway.test };
}

async function judge(workshop, { tests, text, ...mutant }) {
  const startedMs = Date.now();
  const { refused } = workshop.plant(mutant.file, text);
  let red = refused === undefined ? undefined : { test: "(build)", message: refused.slice(0, 300) };
  try {
    for (const group of inGroups(mutant.file, testsFor({ ...mutant, tests }), times, catches)) {
      red ??= await firstRed(workshop, group);
      if (red !== undefined) break;
    }
  } finally {
    workshop.mend();
  }
  const test = red?.test.split(":")[0];
  catches.set(test, (catches.get(test) ?? 0) + 1);
  return {
    ...mutant,
    quick: values.quick,
    tests: values.tests,
    caught: red !== undefined && red.anyway === undefined,
    // Red with and without the bug: it has to be judged again when the machine has time.
    anyway: red?.anyway,
    by: red?.test,
    message: red?.message,
    ms: Date.now() - startedMs,
  };
}

const verdict = ({ caught, anyway }) => (caught ? "caught  " : anyway === undefined ? "SURVIVED" : "UNJUDGED");

async function work(workshop) {
  for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
    const outcome = await judge(workshop, mutant);
    outcomes.push(outcome);
    if (values.results !== undefined) appendFileSync(values.results, `${JSON.stringify(outcome)}\n`);
    if (values.json) console.log(JSON.stringify(outcome));
    else
      console.log(
        `${outcomes.length}/${mutants.length} ${verdict(outcome)} ${show(outcome)}${outcome.caught ? `  [${outcome.by}]` : ""}`,
      );
  }
}

if (queue.length > 0) await calibrate();
await Promise.all(workshops.map(work));
const judged = outcomes.filter(({ anyway }) => anyway === undefined);
const survivors = judged.filter(({ caught }) => !caught);
const unjudged = outcomes.length - judged.length;
const caught = judged.length - survivors.length;
const share = (100 * caught) / judged.length;
if (values.json) console.log(JSON.stringify({ mutants: outcomes.length, of, unjudged, caught, share }));
else {
  console.log(
    `\n${caught} of ${judged.length} caught (${share.toFixed(1)} %); ${unjudged} not judged; ${of} mutants in all.`,
  );
  for (const survivor of survivors.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line))
    console.log(show(survivor));
}
if (values.planted && survivors.length + unjudged > 0) process.exitCode = 2;
