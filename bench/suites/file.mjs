/** Between the processes of one machine, no server: uncontended, after a holder was killed, and six processes on one lock. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { contestants } from "../contestants/file.mjs";
import { atMost, best, find, peersOf, ratio } from "../lib/bars.mjs";
import { byCpu, bySpeed, contest, cyclesSlice, entrants, freshName, medians, sectionsSlice } from "../lib/contest.mjs";
import { Team } from "../lib/team.mjs";

export const file = {
  name: "file",
  title: "File: locks between processes of one machine, no server",
  async run(context) {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
    try {
      // The state directory of the file backend must be ours alone.
      mkdirSync(join(dir, "holdfast"), { mode: 0o700 });
      const all = entrants("file", contestants).filter(context.wanted);
      const shared = { context, entrants: all, env: { dir } };
      const alone = await contest({
        ...shared,
        part: "file, uncontended",
        slice: (team) => cyclesSlice(team, { loops: 1, seconds: context.seconds, times: true }),
        sum: (slices) => medians(slices, byCpu),
      });
      const killed = await contest({
        ...shared,
        part: "file, holder killed",
        warm: false,
        slice: (_, entrant) => killSlice(entrant, { dir }),
        sum: (slices) => medians(slices, ({ recoverMs }) => recoverMs),
      });
      const six = await contest({
        ...shared,
        part: "file, six processes",
        processes: 6,
        slice: (team) => sectionsSlice(team, { loops: 1, seconds: context.seconds * 2 }),
        sum: (slices) => medians(slices, bySpeed),
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

/** A holder that is killed while another waits: from the kill to the other's entry. */
async function killSlice(entrant, env) {
  const team = await Team.start(entrant, 2, env);
  try {
    const name = freshName("killed");
    await team.orderOne(0, { do: "take", name });
    const waiting = team.orderOne(1, { do: "take", name, release: true });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const killedMs = Number(process.hrtime.bigint()) / 1e6;
    team.kill(0);
    const { enteredMs } = await waiting;
    return { recoverMs: enteredMs - killedMs };
  } finally {
    await team.stop();
  }
}

function barsOf(alone, killed, six) {
  const [own, again, fair] = [alone, killed, six].map((rows) => find(rows, "holdfast"));
  const quickest = best(peersOf(alone), (row) => row.tookMs.p50, -1);
  const other = find(killed, "proper-lockfile");
  return [
    atMost(
      "file-p50",
      "uncontended p50 against the best peer",
      ratio(own?.tookMs.p50, quickest?.tookMs.p50),
      1,
      quickest?.name,
    ),
    atMost("file-killed", "after SIGKILL against proper-lockfile", ratio(again?.recoverMs, other?.recoverMs), 0.1),
    atMost("file-starved", "six processes: loops that got nothing", fair?.starved, 0),
    atMost("file-violations", "sections that overlapped", fair?.violations, 0),
  ];
}
