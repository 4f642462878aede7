// What the log of a load on the HTTP adapters says. The log is one file to which all append whole lines: their order is that of the system.
//
//   begin NAME PID FENCE        a handler begins
//   end NAME PID FENCE held     it ends, and its lease was held until then; or `lost`, and it knows that
//   killed PID, stopped PID     by the load

/** `replies`: of each key, the different bodies that clients have got with status 201. */
export function judge(text, replies) {
  const counts = { runs: 0, lost: 0, repeatedAfterKill: 0, repeatedAfterStop: 0, sentUnkept: 0 };
  const faults = [];
  const runs = runsOf(text);
  const disturbed = disturbances(text);
  for (const [name, all] of runs) {
    counts.runs += all.length;
    counts.lost += all.filter(({ how }) => how === "lost").length;
    for (const [at, run] of all.entries()) {
      // A later one was begun with a smaller fence: its lease was over before, and a guard refuses it.
      const later = all.slice(at + 1).find(({ fence }) => fence > run.fence);
      if (later === undefined || run.how === "lost") continue;
      const end =
        run.how === "held" ? run.end : (disturbed.get(run.pid)?.find(({ what }) => what === "killed")?.at ?? Infinity);
      if (later.begin < end) faults.push(`two runs of ${name} at once: ${run.pid} and ${later.pid}`);
      else if (name.startsWith("payment")) repeated(name, run, later);
    }
  }
  for (const [key, bodies] of replies) {
    if (bodies.size === 1) continue;
    // What was made under a lease is sent, also where the store did not say in time whether it was kept: only where its process was stopped.
    const fences = [...bodies].map((body) => BigInt(JSON.parse(body).fence)).toSorted((a, b) => Number(a - b));
    const all = runs.get(`payment:${key}`) ?? [];
    const early = fences.slice(0, -1).map((fence) => all.find((run) => run.fence === fence));
    if (early.every((run) => run !== undefined && wasDisturbed(run, "stopped"))) counts.sentUnkept += 1;
    else faults.push(`key ${key} had ${bodies.size} different responses: ${[...bodies].join(" | ")}`);
  }
  return { counts, faults };

  function wasDisturbed(run, what, before = Infinity) {
    return (disturbed.get(run.pid) ?? []).some((one) => one.what === what && one.at > run.begin && one.at < before);
  }

  /** Its first run was cut off, or ended without being stored: only a server that was killed or stopped meanwhile may have done that. */
  function repeated(name, run, later) {
    if (wasDisturbed(run, "killed", later.begin)) counts.repeatedAfterKill += 1;
    else if (wasDisturbed(run, "stopped", later.begin)) counts.repeatedAfterStop += 1;
    else
      faults.push(
        `${name} ran again after its outcome was stored: ${run.pid} with ${run.fence}, ${later.pid} with ${later.fence}`,
      );
  }
}

export function runsOf(text) {
  const runs = new Map();
  for (const [at, line] of text.trim().split("\n").entries()) {
    const [what, name, pid, fence, how] = line.split(" ");
    if (what === "begin") {
      const all = runs.get(name) ?? [];
      runs.set(name, all);
      all.push({ pid, fence: BigInt(fence), begin: at });
    } else if (what === "end") {
      Object.assign(
        runs.get(name).find((run) => run.fence === BigInt(fence)),
        { end: at, how },
      );
    }
  }
  return runs;
}

export function disturbances(text) {
  const all = new Map();
  for (const [at, line] of text.trim().split("\n").entries()) {
    const [what, pid] = line.split(" ");
    if (what !== "killed" && what !== "stopped") continue;
    all.set(pid, [...(all.get(pid) ?? []), { what, at }]);
  }
  return all;
}
