/** Between the processes of one machine, no server: uncontended, after a holder was killed, and six processes on one lock. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { contestants } from "../contestants/file.mjs";
import { atLeast, atMost, find, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, freshName, medians, sectionsSlice } from "../lib/contest.mjs";
import { median } from "../lib/stats.mjs";
import { shown } from "../lib/table.mjs";
import { Team } from "../lib/team.mjs";

/** As many in a slice as fit into this time, but no more than that: who needs ten seconds for one is believed after one. */
const KILLS_MAX = 7;
const KILLS_MS = 6000;

export const file = {
  name: "file",
  title: "File: locks between processes of one machine, no server",
  async run(context) {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
    try {
      // The state directory of the file backend must be ours alone.
      mkdirSync(join(dir, "holdfast"), { mode: 0o700 });
      const all = entrants("file", contestants).filter(context.wanted);
      const shared = { context, entrants: all.filter(({ limit }) => limit !== true), env: { dir } };
      const alone = await contest({
        ...shared,
        entrants: all,
        part: "file, uncontended",
        slice: (team) => cyclesSlice(team, { loops: 1, seconds: context.seconds, times: true }),
        sum: medians,
      });
      const killed = await contest({
        ...shared,
        part: "file, holder killed",
        warm: false,
        slice: (_, entrant) => killSlice(entrant, { dir }),
        sum: (slices) => afterKills(slices.flatMap(({ killsMs }) => killsMs)),
      });
      const six = await contest({
        ...shared,
        part: "file, six processes",
        processes: 6,
        slice: (team) => sectionsSlice(team, { loops: 1, seconds: context.seconds * 2 }),
        sum: medians,
      });
      const parts = [
        { id: "uncontended", title: "1 process, 1 loop", columns: ["tookMs", "perSecond", "clientCpuUs"], rows: alone },
        {
          id: "killed",
          title: "another process waits when the holder is killed (SIGKILL)",
          columns: ["recoverMs"],
          rows: killed,
        },
        {
          id: "6x1",
          title: "6 processes × 1 loop on one lock",
          columns: ["perSecond", "waitMs", "jain", "starved", "violations", "clientCpuUs"],
          rows: six,
        },
      ];
      return { parts, bars: barsOf(alone, killed, six) };
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
};

/** Several kills, each of a process of its own. */
async function killSlice(entrant, env) {
  const killsMs = [];
  const endMs = performance.now() + KILLS_MS;
  while (killsMs.length < KILLS_MAX && performance.now() < endMs) killsMs.push(await killOne(entrant, env));
  return { killsMs };
}

/** A holder that is killed while another waits: from the kill to the other's entry. */
async function killOne(entrant, env) {
  const team = await Team.start(entrant, 2, env);
  try {
    const name = freshName("killed");
    await team.orderOne(0, { do: "take", name });
    const waiting = team.orderOne(1, { do: "take", name, release: true });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const killedMs = Number(process.hrtime.bigint()) / 1e6;
    team.kill(0);
    const { enteredMs } = await waiting;
    return enteredMs - killedMs;
  } finally {
    await team.stop();
  }
}

/** Over all kills, none left out. */
function afterKills(killsMs) {
  return { recoverMs: median(killsMs), worstMs: Math.max(...killsMs), kills: killsMs.length };
}

function barsOf(alone, killed, six) {
  const [own, again, fair] = [alone, killed, six].map((rows) => find(rows, "holdfast"));
  const [other, raw] = ["proper-lockfile", "raw link(2) ×2"].map((name) => find(alone, name));
  const checks = find(alone, "raw link(2) ×2 and two checks");
  const part = (row) => ratio(row?.tookMs.p50, other?.tookMs.p50);
  // Fairness by the worst slice: a promise about every wait is not kept on average.
  const slices = fair?.slices ?? [];
  const longest = Math.max(...slices.map(({ waitMs }) => waitMs.max / waitMs.p50));
  return [
    atMost(
      "file-p50",
      "uncontended p50 against proper-lockfile's",
      part(own),
      0.01,
      `two bare link(2) calls take ${shown(part(raw))} of it`,
    ),
    atMost(
      "file-links",
      "uncontended p50 against two bare link(2) calls",
      ratio(own?.tookMs.p50, raw?.tookMs.p50),
      1.3,
      `with the checks that it needs they take ${shown(ratio(checks?.tookMs.p50, raw?.tookMs.p50))}`,
    ),
    atMost("file-killed", "p50 ms after SIGKILL", again?.recoverMs, 20, `${again?.kills} kills`),
    atLeast("file-jain", "six processes: Jain's index, worst slice", Math.min(...slices.map(({ jain }) => jain)), 0.95),
    atMost("file-longest", "six processes: longest wait against the median, worst slice", longest, 20),
    atMost("file-starved", "six processes: loops that got nothing", fair?.starved, 0),
    atMost("file-violations", "sections that overlapped", fair?.violations, 0),
  ];
}
