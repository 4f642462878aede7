/**
 * Writes docs/benchmarks.md (between its marks) and docs/img/*.svg from a run's results.
 * Usage: npm run bench -- --out results.json && npm run bench:publish -- results.json [more.json…]
 * Suites may come from several runs: of two runs of one suite, the one named later counts.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { charts } from "./lib/charts.mjs";
import { cells, headings, label, shown } from "./lib/table.mjs";

const BEGIN = "<!-- results: written by bench/publish.mjs -->";
const END = "<!-- end of results -->";

const docs = join(import.meta.dirname, "..", "docs");
const ORDER = [
  "uncontended",
  "hot-one-process",
  "hot-processes",
  "hand-over",
  "work",
  "herd",
  "held",
  "quorum",
  "file",
  "zookeeper",
  "etcd",
  "postgres",
];
const sources = process.argv.slice(2);
if (sources.length === 0) {
  process.stderr.write("Usage: npm run bench:publish -- results.json [more.json…]\n");
  process.exit(64);
}
publish(together(sources.map((source) => JSON.parse(readFileSync(source, "utf8")))));

/** One result from several runs; the load is the first run's before and the last one's after. */
function together(runs) {
  const suites = Object.assign({}, ...runs.map((run) => run.suites));
  const known = Object.keys(suites).toSorted((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const machine = { ...runs[0].machine, loadAfter: runs.at(-1).machine.loadAfter };
  const all = (figure) => range(runs.map((run) => run[figure]));
  return {
    ...runs.at(-1),
    seconds: all("seconds"),
    rounds: all("rounds"),
    machine,
    suites: Object.fromEntries(known.map((name) => [name, suites[name]])),
  };
}

function publish(results) {
  const page = join(docs, "benchmarks.md");
  const text = readFileSync(page, "utf8");
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`Expected docs/benchmarks.md to have the marks ${BEGIN} and ${END}`);
  mkdirSync(join(docs, "img"), { recursive: true });
  const drawn = charts(results);
  for (const { file, svg } of drawn) writeFileSync(join(docs, "img", file), svg);
  writeFileSync(page, `${text.slice(0, from)}${BEGIN}\n\n${markdown(results, drawn)}\n${text.slice(to)}`);
  execFileSync("npx", ["oxfmt", page], { stdio: "inherit" });
}

function markdown(results, drawn) {
  const suites = Object.entries(results.suites);
  const bars = suites.flatMap(([, { bars: of }]) => of);
  const met = bars.filter((bar) => bar.met).length;
  return [
    `Measured ${results.date.slice(0, 10)} on ${machineText(results)}`,
    `${met} of ${bars.length} bars met.`,
    ...suites.map(([name, suite]) => suiteText(name, suite, drawn)),
  ].join("\n\n");
}

function range(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? String(least) : `${least} to ${most}`;
}

function machineText({ machine, seconds, rounds }) {
  const { cpu, cores, memoryGiB, system, node, redis, java, load, loadAfter } = machine;
  const versions = [`Node ${node}`, redis && `Redis ${redis}`, java && `Java ${java}`].filter(Boolean).join(", ");
  return `${cores} cores (${cpu}), ${memoryGiB} GiB, ${system}; ${versions}. ${rounds} rounds, slices of ${seconds} s (contended: twice that). Load average before ${load.join(", ")}, after ${loadAfter.join(", ")}.`;
}

function suiteText(name, { title, parts, bars }, drawn) {
  const chart = drawn.find(({ file }) => file === `${name}.svg`);
  return [
    `## ${title}`,
    ...(chart === undefined ? [] : [`![${title}](img/${chart.file})`]),
    ...parts.map(partText),
    table(
      ["bar", "reached", "asked", ""],
      bars.map(({ text, detail, value, sign, limit, met }) => [
        detail === undefined ? text : `${text} (${detail})`,
        shown(value),
        `${sign} ${shown(limit)}`,
        met ? "met" : "**not met**",
      ]),
    ),
  ].join("\n\n");
}

function partText({ title, columns, rows }) {
  const head = [title, ...headings(columns)];
  const ran = rows
    .filter((row) => row.ran)
    .map((row) => [row.own ? `**${row.name}**` : label(row), ...cells(row, columns)]);
  const out = rows
    .filter((row) => !row.ran)
    .map((row) => `${label(row)} did not run: ${clipped(row.reason).replaceAll("|", "\\|")}.`);
  return [table(head, ran), ...out].join("\n\n");
}

/** Some libraries put a whole script into an error. */
function clipped(reason) {
  return reason.length <= 160 ? reason : `${reason.slice(0, 160).replace(/\s+\S*$/, "")} …`;
}

function table(head, rows) {
  const line = (cellsOfLine) => `| ${cellsOfLine.join(" | ")} |`;
  return [line(head), `|${head.map((_, i) => (i === 0 ? "---" : "---:")).join("|")}|`, ...rows.map(line)].join("\n");
}
