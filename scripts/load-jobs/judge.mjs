// What the log of a load on the adapters for jobs says. It has the lines of load-http/judge.mjs, and runs that
// end with `failed` as they were asked to. Names that begin with `once:` are slots and jobs,
// which must not run again when they were done; all others are locks.
import { disturbances, runsOf } from "../load-http/judge.mjs";

/**
 * `expected`: the names that must have been run to their end. `orders`: names of which none may begin before those before it were run to their end.
 */
export function judgeJobs(text, expected, orders = []) {
  const counts = {
    runs: 0,
    lost: 0,
    repeatedAfterKill: 0,
    repeatedAfterStop: 0,
    repeatedAfterLoss: 0,
    repeatedAfterFailure: 0,
    missed: 0,
    outOfOrder: 0,
  };
  const faults = [];
  const runs = text.trim() === "" ? new Map() : runsOf(text);
  const disturbed = text.trim() === "" ? new Map() : disturbances(text);
  const struck = (run, what, before) =>
    (disturbed.get(run.pid) ?? []).some((one) => one.what === what && one.at > run.begin && one.at < before);

  for (const [name, all] of runs) {
    const isOnce = name.startsWith("once:");
    if (isOnce) counts.runs += all.length;
    if (isOnce) counts.lost += all.filter(({ how }) => how === "lost").length;
    for (const [at, run] of all.entries()) {
      // One that began later with a smaller fence was over before, and a guard refuses it.
      const later = all.slice(at + 1).find(({ fence }) => fence > run.fence);
      if (later === undefined) continue;
      if (run.how === "lost") {
        if (isOnce) counts.repeatedAfterLoss += 1;
        continue;
      }
      const killed = disturbed.get(run.pid)?.find(({ what, at: when }) => what === "killed" && when > run.begin);
      const end = run.how !== undefined ? run.end : (killed?.at ?? Infinity);
      if (later.begin < end) faults.push(`two runs of ${name} at once: ${run.pid} and ${later.pid}`);
      else if (isOnce && run.how === "failed") counts.repeatedAfterFailure += 1;
      else if (isOnce) repeated(name, run, later);
    }
  }
  for (const name of expected) {
    if (runs.get(name)?.some(({ how }) => how === "held")) continue;
    counts.missed += 1;
    faults.push(`${name} was not run to its end`);
  }
  for (const names of orders) {
    let before = { name: undefined, end: -1 };
    for (const name of names) {
      const all = runs.get(name) ?? [];
      const begin = Math.min(...all.map((run) => run.begin));
      const end = Math.min(...all.filter(({ how }) => how === "held").map((run) => run.end));
      if (begin < before.end) {
        counts.outOfOrder += 1;
        faults.push(`${name} began before ${before.name} had ended`);
      }
      if (end > before.end) before = { name, end };
    }
  }
  return { counts, faults };

  /** Its first run was cut off, or ended without being stored: only a process that was killed or stopped meanwhile may have done that. */
  function repeated(name, run, later) {
    if (struck(run, "killed", later.begin)) counts.repeatedAfterKill += 1;
    else if (struck(run, "stopped", later.begin)) counts.repeatedAfterStop += 1;
    else
      faults.push(
        `${name} ran again after it was done: ${run.pid} with ${run.fence}, ${later.pid} with ${later.fence}`,
      );
  }
}
