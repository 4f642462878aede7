/** Which charts a run gives: one per suite that ran. */
import { barChart, lineChart } from "./svg.mjs";
import { shown } from "./table.mjs";

/** `{ file, svg }` for each. */
export function charts({ suites }) {
  const all = [
    bars(
      suites,
      "uncontended",
      "64-loops",
      "uncontended.svg",
      "Client CPU per uncontended lock",
      "µs per acquire and release, 64 loops over one connection; less is better",
      (row) => row.clientCpuUs,
      undefined,
      1,
    ),
    bars(
      suites,
      "hot-one-process",
      "1x32",
      "hot-one-process.svg",
      "One hot lock, 32 loops in one process",
      "sections per second; more is better. Holdfast hands the lock on in memory inside a process",
      (row) => row.perSecond,
      starving(32),
    ),
    bars(
      suites,
      "hot-processes",
      "4x8",
      "hot-processes.svg",
      "One hot lock, four processes",
      "sections per second with 32 loops waiting; more is better. Holdfast hands the lock on in memory inside a process",
      (row) => row.perSecond,
      starving(32),
    ),
    bars(
      suites,
      "hand-over",
      "2x1",
      "hand-over.svg",
      "Hand-over between two processes",
      "median ms from release to the next holder; less is better",
      (row) => row.handOverMs.p50,
      undefined,
      1,
    ),
    bars(
      suites,
      "work",
      "4x2",
      "work.svg",
      "One lock with 2 ms of work inside",
      "sections per second of at most 500, four processes; more is better",
      (row) => row.perSecond,
      starving(8),
    ),
    herd(suites),
    bars(
      suites,
      "held",
      "5000",
      "held.svg",
      "5,000 leases kept alive, ttl 3 s",
      "percent of a core in the client; less is better",
      (row) => row.cpuPercent,
      (row) => `${shown(row.commandsPerSecond)} commands/s${row.lost > 0 ? `, ${row.lost} lost` : ""}`,
      1,
    ),
    bars(
      suites,
      "quorum",
      "2-hung",
      "quorum.svg",
      "Two of five members hung",
      "median ms to acquire and release, default client settings; less is better",
      (row) => row.tookMs.p50,
      undefined,
      1,
    ),
    bars(
      suites,
      "file",
      "killed",
      "file.svg",
      "No server: after the holder was killed",
      "ms until a waiting process has the lock; less is better",
      (row) => row.recoverMs,
      undefined,
      1,
    ),
    bars(
      suites,
      "zookeeper",
      "64-loops",
      "zookeeper.svg",
      "ZooKeeper: client CPU per lock",
      "µs per acquire and release, 64 loops over one connection; less is better",
      (row) => row.clientCpuUs,
      undefined,
      1,
    ),
    bars(
      suites,
      "etcd",
      "64-loops",
      "etcd.svg",
      "etcd: client CPU per lock",
      "µs per acquire and release, 64 loops over one connection; less is better",
      (row) => row.clientCpuUs,
      undefined,
      1,
    ),
  ];
  return all.filter((chart) => chart !== undefined);
}

const starving = (loops) => (row) =>
  row.starved > 0 ? `${row.starved} of ${loops} starved` : `longest wait ${shown(row.waitMs.max)} ms`;

/** `order` 1: the least first. */
function bars(suites, suite, part, file, title, subtitle, value, note = () => undefined, order = -1) {
  const rows = suites[suite]?.parts.find(({ id }) => id === part)?.rows;
  if (rows === undefined) return undefined;
  const drawn = rows
    .filter(({ name }) => name !== "holdfast before")
    .map((row) => ({
      label: row.own ? "Holdfast" : row.name,
      own: row.own,
      limit: row.limit,
      value: row.ran ? value(row) : Number.NaN,
      note: row.ran ? note(row) : shortReason(row.reason),
    }))
    .sort(
      (a, b) => (Number.isFinite(a.value) ? 0 : 1) - (Number.isFinite(b.value) ? 0 : 1) || order * (a.value - b.value),
    );
  return { file, svg: barChart({ title, subtitle, rows: drawn }) };
}

function herd(suites) {
  const parts = suites.herd?.parts;
  if (parts === undefined) return undefined;
  const names = [...new Set(parts.flatMap(({ rows }) => rows.map(({ name }) => name)))].filter(
    (name) => name !== "holdfast before",
  );
  const series = names
    .map((name) => ({
      label: name === "holdfast" ? "Holdfast" : name,
      own: name === "holdfast",
      points: parts.flatMap(({ size, rows }) => {
        const p50 = rows.find((row) => row.name === name && row.ran)?.handOverMs?.p50;
        return p50 > 0 ? [[size, p50]] : [];
      }),
    }))
    .filter(({ points }) => points.length > 0);
  if (series.length === 0) return undefined;
  const svg = lineChart({
    title: "The more wait, the longer it takes?",
    subtitle: "median ms from release to the next holder, by how many wait",
    xTitle: "waiters",
    series,
  });
  return { file: "herd.svg", svg };
}

function shortReason(reason) {
  if (reason.startsWith("no ")) return reason;
  return reason.length > 60 ? `did not run: ${reason.slice(0, 45)}…` : `did not run: ${reason}`;
}
