/**
 * Benchmarks, side by side in one run. `npm run bench -- --help` tells how.
 *
 * All take turns in short slices; ratios within one run count, and of those, CPU per cycle most: they survive a noisy
 * machine. docs/benchmarks.md explains the figures.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildRelease, CHECKED, judge, NEW, OLD, ratiosOf, readRatios, textOf, writeRatios } from "./lib/check.mjs";
import { machine } from "./lib/machine.mjs";
import { install } from "./lib/peers.mjs";
import { barText, partText } from "./lib/table.mjs";

const SUITES = [
  "uncontended",
  "hot-one-process",
  "hot-processes",
  "hand-over",
  "work",
  "herd",
  "held",
  "linger",
  "quorum",
  "file",
  "zookeeper",
  "postgres",
  "etcd",
  "memory",
  "telemetry",
  "scale",
  "start",
];
/** They compare Holdfast with itself, and run when they are asked for. */
const ALONE = ["linger", "memory", "telemetry", "scale", "start"];
const HELP = `npm run bench -- [suite…] [options]

Suites: ${SUITES.join(", ")}.
Without any, all but ${ALONE.join(", ")} run, which takes about twenty minutes.

  --json            print the results as JSON on stdout; tables and progress go to stderr
  --out FILE        also write the JSON to FILE
  --plot DIR        draw charts (SVG) into DIR
  --seconds N       length of a slice (default 1; contended slices take twice as long)
  --rounds N        slices per contestant (default 3, and one to warm up)
  --only A,B        only these contestants; may be given several times
  --part A,B        only these parts of the suite telemetry: memory, redis, turns, redis-32, hot
  --no-peers        only Holdfast and the raw limit; installs nothing
  --strict          exit with 1 when a bar is not met
  --check           compare with the last release in one run: exit with 1 when CPU per cycle has grown by more than
                    15 % against the ratios in bench/ratios.json. What seems to have grown is measured again.
  --check --write   … and write the ratios of this run instead
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    out: { type: "string" },
    plot: { type: "string" },
    seconds: { type: "string", default: "1" },
    rounds: { type: "string", default: "3" },
    only: { type: "string", multiple: true },
    part: { type: "string" },
    "no-peers": { type: "boolean", default: false },
    strict: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

// By these a process ends at once. By exit() it first ends the servers that it started.
for (const [signal, code] of Object.entries({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }))
  process.once(signal, () => process.exit(code));

if (values.help) process.stdout.write(HELP);
else if (values.check) process.exitCode = await check();
else process.exitCode = await main();

async function main() {
  const context = toContext();
  const names = positionals.length > 0 ? positionals : SUITES.filter((name) => !ALONE.includes(name));
  const unknown = names.find((name) => !SUITES.includes(name));
  if (unknown !== undefined) {
    process.stderr.write(`There is no suite "${unknown}". Suites: ${SUITES.join(", ")}.\n`);
    return 64;
  }
  const trouble = context.peers ? await install(context.say) : undefined;
  if (trouble !== undefined) context.say(`the peers could not be installed: ${trouble}`);
  const results = await measure(context, names);
  await deliver(results);
  const missed = Object.values(results.suites).flatMap(({ bars }) => bars.filter(({ met }) => !met));
  return values.strict && missed.length > 0 ? 1 : 0;
}

/** Runs the suites one after the other, and prints each when it is over. */
async function measure(context, names) {
  const results = {
    version: 1,
    date: new Date().toISOString(),
    machine: machine(),
    seconds: context.seconds,
    rounds: context.rounds,
    suites: {},
  };
  for (const name of names) {
    const suite = await load(name);
    context.print(`\n${suite.title}`);
    const startedMs = performance.now();
    const { parts, bars } = await suite.run(context);
    results.suites[name] = { title: suite.title, tookSeconds: (performance.now() - startedMs) / 1000, parts, bars };
    context.clear();
    for (const part of parts) context.print(partText(part));
    // Bars compare with other libraries, which a check leaves out.
    if (!values.check) for (const bar of bars) context.print(barText(bar));
  }
  results.machine.loadAfter = machine().load;
  return results;
}

async function check() {
  const { release, ratios: committed } = readRatios();
  const context = { ...toContext(), peers: false, wanted: ({ name }) => name === NEW || name === OLD };
  const names = positionals.length > 0 ? positionals : CHECKED;
  const unknown = names.find((name) => !CHECKED.includes(name));
  if (unknown !== undefined) {
    process.stderr.write(`"${unknown}" is not checked. Suites: ${CHECKED.join(", ")}.\n`);
    return 64;
  }
  process.env.HOLDFAST_BEFORE = buildRelease(release, context.say);
  const results = await measure(context, names);
  await deliver(results);
  const ratios = ratiosOf(results.suites);
  if (values.write) {
    writeRatios(release, { ...committed, ...ratios });
    return 0;
  }
  const wanted = Object.fromEntries(Object.entries(committed).filter(([id]) => names.includes(id.split("/")[0])));
  const suspects = [...new Set(judge(ratios, wanted).map(({ id }) => id.split("/")[0]))];
  if (suspects.length > 0) {
    context.say(`measured again, for twice as long: ${suspects.join(", ")}`);
    const again = await measure({ ...context, rounds: 2 * context.rounds }, suspects);
    for (const [id, now] of Object.entries(ratiosOf(again.suites))) ratios[id] = Math.min(now, ratios[id] ?? now);
  }
  const findings = judge(ratios, wanted);
  for (const finding of findings) context.print(`found: ${textOf(finding)}`);
  if (findings.length === 0) context.print(`nothing has grown by more than 15 % since ${release.version}`);
  return findings.length > 0 ? 1 : 0;
}

function toContext() {
  // A name may have a comma in it.
  const only = values.only?.flatMap((names) => [names, ...names.split(",")]);
  const tty = process.stderr.isTTY === true;
  return {
    seconds: positive("seconds"),
    rounds: Math.round(positive("rounds")),
    peers: !values["no-peers"],
    only,
    wanted: (entrant) =>
      only === undefined
        ? !values["no-peers"] || entrant.own === true || entrant.limit === true
        : only.includes(entrant.name),
    wantedPart: (part) => values.part === undefined || values.part.split(",").includes(part),
    say: (text) => process.stderr.write(`${tty ? "\r\u001b[K" : ""}${text}\n`),
    progress: (text) => tty && process.stderr.write(`\r\u001b[K  ${text}`),
    clear: () => tty && process.stderr.write("\r\u001b[K"),
    print: (text) => (values.json ? process.stderr : process.stdout).write(`${tty ? "\r\u001b[K" : ""}${text}\n`),
  };
}

function positive(option) {
  const number = Number(values[option]);
  if (number > 0 && Number.isFinite(number)) return number;
  throw new TypeError(`Expected --${option} to be a number above 0, got ${values[option]}`);
}

async function load(name) {
  const file = name.startsWith("hot-") ? "hot" : name;
  const module = await import(`./suites/${file}.mjs`);
  return Object.values(module).find((suite) => suite.name === name);
}

async function deliver(results) {
  const json = `${JSON.stringify(results, null, 1)}\n`;
  if (values.json) process.stdout.write(json);
  if (values.out !== undefined) writeFileSync(values.out, json);
  if (values.plot === undefined) return;
  const { charts } = await import("./lib/charts.mjs");
  mkdirSync(values.plot, { recursive: true });
  for (const { file, svg } of charts(results)) writeFileSync(join(values.plot, file), svg);
}
