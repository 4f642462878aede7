// Go's concurrency.Mutex and Holdfast take turns on one lock of a cluster of three, whose leader is stopped and killed meanwhile.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { goMutex } from "../bench/etcd-mutex/driver.mjs";
import { handOvers, merge, violations } from "../bench/lib/sections.mjs";
import { spread } from "../bench/lib/stats.mjs";
import { Team } from "../bench/lib/team.mjs";
import { newerEtcd, VERSIONS, withPath } from "./newer-etcd.mjs";

const ROOT = join(import.meta.dirname, "..");
const OURS = { name: "holdfast", family: "etcd" };
const PROCESSES = 4;
const PAUSE_MS = 3000;

export async function judgeEtcd(context) {
  const rows = [];
  const findings = [];
  const refusals = [];
  const [theirs] = await goMutex({ peers: true, say: context.say });
  if (theirs.refusal !== undefined) return { rows, findings, refusals: [theirs.refusal] };
  for (const version of ["Debian's", ...VERSIONS]) {
    const { bin, refusal } = version === "Debian's" ? {} : await newerEtcd(version, context.say);
    if (refusal !== undefined) {
      refusals.push(refusal);
      continue;
    }
    context.say(`etcd ${version}: ${context.seconds} s …`);
    const row = await withPath(bin, () => takeTurns(context, theirs)).catch((error) => {
      findings.push(`etcd ${version}: ${error.message}`);
    });
    if (row === undefined) continue;
    rows.push({ etcd: version, ...row });
    if (row.overlaps !== 0)
      findings.push(`etcd ${version}: ${row.overlaps} sections overlapped, or had no greater fence`);
    if (row["fewest of one process"] === 0) findings.push(`etcd ${version}: a process was never served`);
    if (context.suite && bin !== undefined) findings.push(...(await runSuite(version, bin, context.say)));
  }
  return { rows, findings, refusals };
}

async function takeTurns({ seconds }, theirs) {
  const { startEtcd } = await import("../build/lab/servers/etcd.js");
  const lab = await startEtcd({ members: 3 });
  const dir = mkdtempSync(join(tmpdir(), "holdfast-judges-"));
  const teams = [];
  try {
    for (const who of [OURS, theirs]) teams.push(await Team.start(who, PROCESSES, { endpoints: lab.endpoints }));
    const file = (team, index) => join(dir, `${team}-${index}`);
    const order = { do: "sections", name: "/judges/one", loops: 1, seconds, patient: true };
    const limitMs = seconds * 1000 + 180_000;
    const working = Promise.all(
      teams.map((team, at) => team.order(order, (index) => ({ file: file(at, index), index }), limitMs)),
    );
    await Promise.all([working, strike(lab, seconds)]);
    const logs = teams.map((team, at) =>
      Array.from({ length: team.size }, (_, index) => readFileSync(file(at, index))),
    );
    return resultOf(merge(logs.flat()));
  } finally {
    await Promise.all(teams.map((team) => team.stop()));
    await lab.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A third of the time undisturbed; then the leader is stopped for a while; then the next one is killed. */
async function strike(lab, seconds) {
  await sleep((seconds * 1000) / 3);
  const stopped = await lab.leader();
  stopped.pause();
  await sleep(Math.min(PAUSE_MS, (seconds * 1000) / 6));
  stopped.resume();
  await sleep((seconds * 1000) / 6);
  const killed = await lab.leader();
  await killed.kill();
  await killed.restart();
}

function resultOf(sections) {
  const isOurs = ({ worker }) => worker < PROCESSES;
  const counts = Array.from(
    { length: 2 * PROCESSES },
    (_, at) => sections.filter(({ worker }) => worker === at).length,
  );
  const between = (from, to) =>
    sections.flatMap((after, at) => {
      const before = sections[at - 1];
      const isIt = before !== undefined && isOurs(before) === from && isOurs(after) === to;
      return isIt ? handOvers([before, after]) : [];
    });
  const p50 = (gaps) => (gaps.length === 0 ? "–" : `${spread(gaps).p50.toFixed(1)} ms (${gaps.length})`);
  return {
    "sections of Holdfast": sections.filter((one) => isOurs(one)).length,
    "of Go's mutex": sections.filter((one) => !isOurs(one)).length,
    "fewest of one process": Math.min(...counts),
    overlaps: violations(sections),
    "hand-over to Go, p50": p50(between(true, false)),
    "to Holdfast, p50": p50(between(false, true)),
  };
}

/** The tests of the backend, on that server. */
async function runSuite(version, bin, say) {
  say(`etcd ${version}: the tests of the backend …`);
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
  const args = ["vitest", "run", "test/conformance/etcd.test.ts", "test/backends/etcd", "test/fence/etcd.test.ts"];
  try {
    await promisify(execFile)("npx", args, { cwd: ROOT, env, maxBuffer: 2 ** 26 });
    return [];
  } catch (error) {
    return [`etcd ${version}: ${error.stdout?.match(/FAIL .*/g)?.join("; ") ?? error.message}`];
  }
}
