/** `holdfast lab`: list, run, compare and soak, from the command line. */
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { printable } from "../contract/foreign.ts";
import { compare } from "./compare.ts";
import { otherSettings } from "./libraries/others.ts";
import type { Verdict } from "./judge.ts";
import { comparisonLines } from "./report/comparison.ts";
import { writePage } from "./report/page.ts";
import { soakLines } from "./report/soak.ts";
import { backendsOf, runScenarios } from "./run.ts";
import { scenarios as all } from "./scenarios/all.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import { soak } from "./soak/soak.ts";
import type { StageName } from "./stage.ts";
import { PLAYED, SOAKED } from "./stages/all.ts";
import { UnavailableError } from "./unavailable-error.ts";

const USAGE = `holdfast lab: see what your lock does when things break. Starts real servers on this machine, on loopback only.

  holdfast lab                                    list the scenarios
  holdfast lab run [SCENARIO…] [--backend B,…]    play them, judge them, write a report
  holdfast lab compare [SCENARIO…]                play them with other lock libraries, too
  holdfast lab soak --minutes N [--seed S]        random faults on ${SOAKED.length} backends, judged all the time

  --backend B,…   ${PLAYED.join(", ")} (soak: ${SOAKED.join(", ")})
  --report FILE   where run writes its page (holdfast-lab.html)
  --jobs N        plays at a time (2)
  --json          print one JSON document

Exit: 0 all scenarios passed, 1 at least one failed, 64 wrong usage, 69 a server cannot be started here.`;

const CLEAR_LINE = "\r\u001B[K";

/** What the command may read and write: the command line's own io is one. */
export interface LabIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stderr: NodeJS.WriteStream;
  print(line: string): void;
  note(line: string): void;
  json(value: unknown): void;
  style(stream: "stdout" | "stderr", style: "green" | "red", text: string): string;
}

interface Wanted {
  readonly action: string;
  readonly names: readonly string[];
  readonly backends: readonly string[] | undefined;
  readonly report: string;
  readonly jobs: number;
  readonly minutes: number;
  readonly seed: number;
  readonly json: boolean;
  readonly help: boolean;
}

/** Wrong usage: nothing was started. */
class LabUsageError extends Error {}

/** Runs `holdfast lab …`. Resolves to the exit code. */
export async function labCommand(args: readonly string[], io: LabIo): Promise<number> {
  try {
    const wanted = read(args);
    if (wanted.help) {
      io.print(USAGE);
      return 0;
    }
    return await act(wanted, io);
  } catch (error) {
    if (error instanceof LabUsageError) {
      io.note(`holdfast lab: ${printable(error.message)}. See \`holdfast lab --help\`.`);
      return 64;
    }
    if (error instanceof UnavailableError) {
      io.note(`holdfast lab: ${printable(error.message)}`);
      return 69;
    }
    throw error;
  }
}

function act(wanted: Wanted, io: LabIo): Promise<number> {
  switch (wanted.action) {
    case "list":
      return list(wanted, io);
    case "run":
      return run(wanted, io);
    case "compare":
      return runComparison(wanted, io);
    case "soak":
      return runSoak(wanted, io);
    default:
      throw new LabUsageError(`there is no action ${JSON.stringify(wanted.action)}`);
  }
}

function read(args: readonly string[]): Wanted {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        backend: { type: "string" },
        report: { type: "string", default: "holdfast-lab.html" },
        jobs: { type: "string", default: "2" },
        minutes: { type: "string", default: "1" },
        seed: { type: "string", default: "1" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    const [action = "list", ...names] = positionals;
    const { backend, report, json, help } = values;
    return {
      action,
      names,
      backends: backend?.split(","),
      report,
      json,
      help,
      jobs: toNumber(values.jobs, "--jobs", 1, 16),
      minutes: toNumber(values.minutes, "--minutes", 0.05, 10_000),
      seed: toNumber(values.seed, "--seed", 0, 2 ** 31),
    };
  } catch (error) {
    throw error instanceof LabUsageError ? error : new LabUsageError((error as Error).message);
  }
}

function toNumber(text: string, flag: string, least: number, most: number): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= least && number <= most)) {
    throw new LabUsageError(`expected ${flag} to be a number from ${least} to ${most}, got ${JSON.stringify(text)}`);
  }
  return number;
}

function choose(names: readonly string[]): readonly Scenario[] {
  if (names.length === 0) return all;
  return names.map((name) => {
    const found = all.find(({ id }) => id === name);
    if (found === undefined) throw new LabUsageError(`there is no scenario ${JSON.stringify(name)}`);
    return found;
  });
}

function chooseBackends<B extends string>(wanted: readonly string[] | undefined, known: readonly B[]): readonly B[] {
  if (wanted === undefined) return known;
  return wanted.map((name) => {
    const found = known.find((backend) => backend === name);
    if (found === undefined)
      throw new LabUsageError(`expected --backend to be of ${known.join(", ")}, got ${JSON.stringify(name)}`);
    return found;
  });
}

async function list({ json }: Wanted, io: LabIo): Promise<number> {
  if (json) {
    io.json(
      all.map(({ id, title, story, source, plays, outcomes }) => ({ id, title, story, source, plays, outcomes })),
    );
    return 0;
  }
  const width = Math.max(...all.map(({ id }) => id.length));
  for (const scenario of all) {
    io.print(`${scenario.id.padEnd(width)}  ${scenario.title}  [${backendsOf(scenario).join(", ")}]`);
  }
  return 0;
}

async function run(wanted: Wanted, io: LabIo): Promise<number> {
  const scenarios = choose(wanted.names);
  const backends = chooseBackends(wanted.backends, PLAYED);
  const chosen = scenarios.filter((scenario) => backendsOf(scenario, backends).length > 0);
  if (chosen.length === 0) throw new LabUsageError("none of these scenarios applies to these backends");
  const line = progressLine(io);
  const verdicts = await runScenarios(chosen, {
    backends,
    jobs: wanted.jobs,
    onStart: ({ id }, backend, left) => line.show(`playing ${id} on ${backend} · ${left} to go`),
    onVerdict: (verdict) => {
      line.clear();
      if (!wanted.json) io.print(verdictLine(verdict, io));
    },
  });
  line.clear();
  const file = resolve(wanted.report);
  const command = [
    "holdfast lab run",
    ...wanted.names,
    ...(wanted.backends === undefined ? [] : [`--backend ${wanted.backends.join(",")}`]),
  ];
  const date = new Date().toISOString().slice(0, 16).replace("T", " ");
  await writeFile(file, writePage(verdicts, { command: command.join(" "), date: `${date} UTC` }));
  const bad = verdicts.filter(({ against }) => against.length > 0);
  if (wanted.json) io.json({ report: file, verdicts: verdicts.map(toJson) });
  else io.print(`${verdicts.length - bad.length} of ${verdicts.length} verdicts as promised. Report: ${file}`);
  return bad.length === 0 ? 0 : 1;
}

function verdictLine({ result, facts, against }: Verdict, io: LabIo): string {
  const { plain, guarded } = facts.registers;
  const where = `${result.scenario.id.padEnd(20)} ${result.stage.backend.padEnd(9)}`;
  const exclusion = facts.overlapMs > 0 ? `two believed for ${Math.round(facts.overlapMs)} ms` : "exclusion kept";
  const off = plain.stale > 0 ? `fencing off: ${plain.stale} stale write accepted` : "fencing off: no stale write";
  const on = guarded.refused > 0 ? `fencing on: ${guarded.refused} refused` : "fencing on: none to refuse";
  const end =
    against.length === 0
      ? io.style("stdout", "green", "as promised")
      : io.style("stdout", "red", `NOT as promised: ${against.join("; ")}`);
  return `${where} ${exclusion} · ${off} · ${on} · ${end}`;
}

function toJson({ result, facts, against }: Verdict): object {
  const { beliefs: _, ...rest } = facts;
  return {
    scenario: result.scenario.id,
    backend: result.stage.backend,
    asPromised: against.length === 0,
    against,
    ...rest,
  };
}

async function runComparison(wanted: Wanted, io: LabIo): Promise<number> {
  const line = progressLine(io);
  const onStart = (scenario: Scenario, { title }: { readonly title: string }): void =>
    line.show(`playing ${scenario.id} with ${title}`);
  const backends = chooseBackends<StageName>(wanted.backends, ["redis", "quorum"]);
  const cells = await compare(choose(wanted.names), { backends, jobs: wanted.jobs, onStart });
  line.clear();
  if (wanted.json) {
    io.json(cells.map(({ scenario, entrant, tone, words }) => ({ scenario: scenario.id, ...entrant, tone, words })));
  } else for (const text of comparisonLines(cells, await otherSettings())) io.print(text);
  const ours = cells.filter(({ entrant, tone }) => entrant.library === "holdfast" && tone === "bad");
  return ours.length === 0 ? 0 : 1;
}

async function runSoak(wanted: Wanted, io: LabIo): Promise<number> {
  const { minutes, seed } = wanted;
  const backends = chooseBackends(wanted.backends, SOAKED);
  const line = progressLine(io);
  const startMs = performance.now();
  const counts = await soak({
    minutes,
    seed,
    backends,
    onProgress: (sofar) => {
      const parts = sofar.map(
        ({ backend, sections, violations }) =>
          `${backend} ${sections}${violations.length > 0 ? ` (${violations.length} violations)` : ""}`,
      );
      line.show(`${Math.round((performance.now() - startMs) / 1000)} s · sections: ${parts.join(" · ")}`);
    },
  });
  line.clear();
  if (wanted.json) io.json({ minutes, seed, counts });
  else for (const text of soakLines(counts, { minutes, seed })) io.print(text);
  const clean = counts.every(
    ({ violations, leakedKeys, leakedHandles }) => violations.length + leakedKeys.length + leakedHandles.length === 0,
  );
  return clean ? 0 : 1;
}

/** One line on a terminal, redrawn in place; nothing elsewhere. */
function progressLine(io: LabIo): { show(text: string): void; clear(): void } {
  const draws = io.stderr.isTTY && io.env["TERM"] !== "dumb";
  const write = (text: string): void => void (draws && io.stderr.write(text));
  return {
    show: (text) => write(CLEAR_LINE + text.slice(0, (io.stderr.columns || 80) - 1)),
    clear: () => write(CLEAR_LINE),
  };
}
