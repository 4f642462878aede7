// ShedLock's own provider (Java) and Holdfast take turns on one row of one table, while the server is stopped for a while.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { merge, violations } from "../bench/lib/sections.mjs";
import { Team } from "../bench/lib/team.mjs";
import { shedlock } from "../bench/shedlock/driver.mjs";

const OURS = { name: "holdfast", family: "shedlock" };
const PROCESSES = 2;
const PAUSE_MS = 3000;

export async function judgeShedLock(context) {
  const [theirs] = await shedlock({ peers: true, say: context.say });
  if (theirs.refusal !== undefined) return { rows: [], findings: [], refusals: [theirs.refusal] };
  context.say(`ShedLock ${theirs.version}: ${context.seconds} s …`);
  const row = await takeTurns(context, theirs);
  const findings = [];
  if (row.overlaps !== 0) findings.push(`ShedLock: ${row.overlaps} sections overlapped, or had no greater fence`);
  if (row["fewest of one process"] === 0) findings.push("ShedLock: a process was never served");
  return { rows: [{ ShedLock: theirs.version, ...row }], findings, refusals: [] };
}

async function takeTurns({ seconds }, theirs) {
  const { startPostgres } = await import("../dist/lab/servers/postgres.js");
  const { SHEDLOCK_TABLE } = await import("../dist/backends/shedlock/index.js");
  const server = await startPostgres();
  const dir = mkdtempSync(join(tmpdir(), "holdfast-judges-"));
  const teams = [];
  try {
    await server.sql(SHEDLOCK_TABLE);
    for (const who of [OURS, theirs]) teams.push(await Team.start(who, PROCESSES, { port: server.port }));
    const file = (team, index) => join(dir, `${team}-${index}`);
    const order = { do: "sections", name: "judged", loops: 1, seconds };
    const limitMs = seconds * 1000 + 180_000;
    const working = Promise.all(
      teams.map((team, at) => team.order(order, (index) => ({ file: file(at, index), index }), limitMs)),
    );
    await Promise.all([working, strike(server, seconds)]);
    const logs = teams.flatMap((team, at) =>
      Array.from({ length: team.size }, (_, index) => readFileSync(file(at, index))),
    );
    return resultOf(merge(logs));
  } finally {
    await Promise.all(teams.map((team) => team.stop()));
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The first half undisturbed; then the server is stopped for a while. Its end would be that of ShedLock's one connection. */
async function strike(server, seconds) {
  await sleep((seconds * 1000) / 2);
  server.pause();
  await sleep(Math.min(PAUSE_MS, (seconds * 1000) / 6));
  server.resume();
}

function resultOf(sections) {
  const isOurs = ({ worker }) => worker < PROCESSES;
  const counts = Array.from(
    { length: 2 * PROCESSES },
    (_, at) => sections.filter(({ worker }) => worker === at).length,
  );
  const changes = sections.filter((after, at) => at > 0 && isOurs(after) !== isOurs(sections[at - 1])).length;
  return {
    "sections of Holdfast": sections.filter((one) => isOurs(one)).length,
    "of ShedLock": sections.filter((one) => !isOurs(one)).length,
    "changes of language": changes,
    "fewest of one process": Math.min(...counts),
    overlaps: violations(sections),
  };
}
