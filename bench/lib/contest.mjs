/** One part of a suite: starts all processes, lets them take turns, and sums up. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pin } from "./cores.mjs";
import { othersSince, readMachine } from "./others.mjs";
import { versionOf } from "./peers.mjs";
import { rotate } from "./rotation.mjs";
import { handOvers, merge, summary } from "./sections.mjs";
import { median, quietest, spread } from "./stats.mjs";
import { Team } from "./team.mjs";

let names = 0;

/** A lock name that no slice has used before. */
export function freshName(text) {
  return `bench-${text}-${process.pid}-${++names}`;
}

/** `table` of contestants → entrants; `only` names those who take part when not all do. */
export function entrants(family, table, choose = () => true) {
  return Object.entries(table)
    .filter(([name, contestant]) => choose(contestant, name))
    .filter(([name]) => name !== "holdfast before" || process.env.HOLDFAST_BEFORE !== undefined)
    .map(([name, contestant]) => ({ ...contestant, name, family }));
}

/**
 * Starts `processes` of every entrant, on one core if `core` names it, and rotates `slice(team, entrant)`. Returns one row
 * per entrant: figures summed up by `sum(slices)`, or `ran: false` with the reason.
 */
export async function contest({
  context,
  part,
  entrants: all,
  processes = 1,
  env,
  core,
  slice,
  sum,
  rounds,
  warm = true,
}) {
  const teams = new Map();
  const reasons = new Map();
  for (const entrant of all) {
    context.progress(`${part}: starting ${entrant.name}`);
    try {
      if (entrant.refusal !== undefined) throw new Error(entrant.refusal);
      const team = await Team.start(entrant, processes, env);
      teams.set(entrant, team);
      if (core !== undefined) for (const pid of team.pids) pin(pid, core);
    } catch (error) {
      reasons.set(entrant, error.message);
    }
  }
  try {
    const running = all.filter((entrant) => teams.has(entrant));
    const results = await rotate(
      running,
      rounds ?? context.rounds,
      async (entrant, round) => {
        const before = readMachine();
        const figures = await slice(teams.get(entrant), entrant, round);
        return { ...figures, othersPart: othersSince(before) };
      },
      {
        warm,
        progress: (round, entrant) =>
          context.progress(`${part}: round ${round + 1} of ${rounds ?? context.rounds}, ${entrant.name}`),
      },
    );
    return all.map((entrant) =>
      row(entrant, reasons.get(entrant) ?? results.get(entrant)?.reason, results.get(entrant)?.slices ?? [], sum),
    );
  } finally {
    await Promise.all([...teams.values()].map((team) => team.stop()));
  }
}

function row(entrant, reason, slices, sum) {
  const who = {
    name: entrant.name,
    version: entrant.own === true ? undefined : (entrant.version ?? versionOf(entrant.package ?? entrant.name)),
    own: entrant.own === true,
    limit: entrant.limit === true,
    node: entrant.command === undefined,
  };
  if (reason !== undefined) return { ...who, ran: false, reason };
  return { ...who, ran: true, ...sum(slices), slices };
}

/** Orders an uncontended slice, and puts the store's share beside it. */
export async function cyclesSlice(team, order, store, sends) {
  const before = await store?.read();
  const answers = await team.order({ do: "cycles", name: freshName("own"), ...order });
  const spent = await store?.since(before, sends);
  const cycles = total(answers, "cycles");
  return {
    cycles,
    perSecond: answers.reduce((sum, one) => sum + one.cycles / one.seconds, 0),
    clientCpuUs: cycles === 0 ? Number.NaN : total(answers, "cpuUs") / cycles,
    ...perCycle(spent, cycles),
    ...(order.times === true ? { tookMs: answers[0].tookMs } : {}),
  };
}

/** Orders two ways of the same by turns. */
export async function switchedSlice(team, order) {
  const [{ offUs, onUs }] = await team.order({ do: "switched", name: freshName("switched"), ...order });
  return { offUs, onUs, ratio: onUs / offUs };
}

/** Orders a contended slice, reads all logs, and checks that no two were inside together. */
export async function sectionsSlice(team, order, store, { sends, verb = "sections" } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  try {
    const before = await store?.read();
    const file = (index) => join(dir, String(index));
    const answers = await team.order({ do: verb, name: freshName("hot"), ...order }, (index) => ({
      file: file(index),
      index,
    }));
    const spent = await store?.since(before, sends);
    const sections = merge(answers.map((_, index) => readFileSync(file(index))));
    const cycles = total(answers, "cycles");
    const untilMs = Math.max(...answers.map((answer) => answer.untilMs));
    return {
      cycles,
      ...summary(
        sections,
        team.size * order.loops,
        order.seconds,
        untilMs,
        answers.flatMap(({ stuckMs = [] }) => stuckMs),
      ),
      handOverMs: spread(handOvers(sections, order.anyone)),
      handOvers: handOvers(sections, order.anyone).length,
      clientCpuUs: cycles === 0 ? Number.NaN : total(answers, "cpuUs") / cycles,
      ...perCycle(spent, cycles),
    };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Each figure's median over the quietest slices; of violations, starved loops and the longest times the worst over all. */
export function medians(slices) {
  const kept = quietest(slices);
  const result = {};
  for (const figure of Object.keys(slices[0] ?? {})) {
    const value = slices[0][figure];
    if (typeof value === "object") {
      result[figure] = Object.fromEntries(
        Object.keys(value).map((name) => [
          name,
          name === "max"
            ? Math.max(...slices.map((slice) => slice[figure].max))
            : median(kept.map((slice) => slice[figure][name])),
        ]),
      );
    } else if (figure === "violations") result[figure] = slices.reduce((sum, slice) => sum + slice.violations, 0);
    else if (figure === "starved") result[figure] = Math.max(...slices.map((slice) => slice.starved));
    else result[figure] = median(kept.map((slice) => slice[figure]));
  }
  return result;
}

function perCycle(spent, cycles) {
  if (spent === undefined || cycles === 0) return {};
  if (Number.isNaN(spent.commands)) return { storeCpuUs: spent.cpuUs / cycles };
  return { storeCpuUs: spent.cpuUs / cycles, storeCommands: spent.commands / cycles, storeCalls: spent.calls / cycles };
}

export function total(answers, figure) {
  return answers.reduce((sum, answer) => sum + answer[figure], 0);
}
