// Which libraries share locks with Holdfast: one table, made from the results of the mixed runs. See results.mjs.

/**
 * Where a row of a judge comes from. `library` and `how`: what is written into the table. `wakes`: whether a release of theirs wakes ours, and one
 * of ours theirs, so that it need not ask again; the judges look whether it is so.
 */
const MIXED = {
  redisson: {
    library: ({ Redisson }) => `Redisson ${Redisson} (Java)`,
    how: ({ kind }) => `\`layout=redisson&kind=${kind}\``,
    wakes: () => ({ ours: true, theirs: true }),
  },
  plain: {
    library: ({ library }) => library.replace(/, three servers$/, ""),
    how: ({ library }) => (library.endsWith("three servers") ? "`redlock:` with `layout=plain`" : "`layout=plain`"),
    wakes: (row) => ({ ours: row["keyspace events"] === "on", theirs: false }),
  },
  "drop-ins": {
    library: ({ library }) => library,
    how: (row) => `\`holdfast/${row.library.split(" ")[0]}\`, ${row["the drop-in"]}`,
    wakes: (row) => ({ ours: row["the drop-in"] !== "rolling", theirs: false }),
  },
  zookeeper: {
    library: ({ library }) => library,
    how: ({ library }) => (library.startsWith("kazoo") ? "`zk:` with `dialect=kazoo`" : "`zk:`"),
    wakes: () => ({ ours: true, theirs: true }),
  },
  etcd: {
    library: () => "concurrency.Mutex (Go)",
    how: () => "`etcd:` with `names=paths`",
    wakes: () => ({ ours: true, theirs: true }),
  },
  etcdctl: {
    library: ({ program }) => program,
    how: () => "`etcd:` with `names=paths`",
    wakes: () => ({ ours: true, theirs: true }),
  },
  shedlock: {
    library: ({ ShedLock }) => `ShedLock ${ShedLock} (Java)`,
    how: () => "`postgres+shedlock:`",
    wakes: () => ({ ours: false, theirs: false }),
  },
};

export function wakesOf(judge, row) {
  return MIXED[judge].wakes(row);
}

/** One row for each library and each way to share its locks: the sums of its runs, and the slowest of their medians. */
export function interopRows(results) {
  const groups = new Map();
  for (const [judge, { library, how, wakes }] of Object.entries(MIXED)) {
    for (const row of results[judge]?.rows ?? []) {
      const key = JSON.stringify([library(row), how(row)]);
      const runs = groups.get(key) ?? [];
      runs.push({ row, wakes: wakes(row) });
      groups.set(key, runs);
    }
  }
  return [...groups].map(([key, runs]) => {
    const [library, how] = JSON.parse(key);
    return {
      "their library": library,
      "in Holdfast": how,
      runs: runs.length,
      "sections of theirs": sum(runs, theirsOf),
      "of Holdfast": sum(runs, (row) => row["sections of Holdfast"]),
      "fewest of one process": Math.min(...runs.map(({ row }) => row["fewest of one process"])),
      overlaps: sum(runs, ({ overlaps }) => overlaps),
      "their release wakes ours": woken(runs, "ours", /to Holdfast, p50/),
      "ours wakes theirs": woken(runs, "theirs", /to (?!Holdfast).*, p50/),
    };
  });
}

function sum(runs, count) {
  return runs.reduce((total, { row }) => total + count(row), 0);
}

function theirsOf(row) {
  return Object.entries(row).find(([column]) => column.startsWith("of "))?.[1] ?? 0;
}

/** The slowest median of the runs in which that side is woken: between two, where that was measured. */
function woken(runs, side, column) {
  const medians = runs
    .filter(({ wakes }) => wakes[side])
    .map(({ row }) => Object.entries(row).findLast(([name, text]) => column.test(name) && text !== "–")?.[1])
    .map((text) => Number.parseFloat(text));
  if (medians.length === 0) return "no, it polls";
  const most = `${Math.max(...medians).toFixed(1)} ms`;
  return medians.length === runs.length ? most : `with keyspace events: ${most}`;
}
