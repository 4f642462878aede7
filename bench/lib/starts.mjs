/** Processes that are started one after the other, by turns, and how long each takes. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { DIST } from "./holdfast.mjs";
import { spread } from "./stats.mjs";

/** Rounds that fill the caches of the file system, and are not counted. */
const WARM_UP = 2;
const IMPORT = `const startedMs = performance.now();
  for (const one of process.argv.slice(1)) await import(one);
  process.stdout.write(String(performance.now() - startedMs));`;

/** Node 20 reads such certificates at every start, for longer than the rest of it takes; nothing here talks to another machine. */
const { NODE_EXTRA_CA_CERTS: _certificates, NODE_OPTIONS: _options, HOLDFAST_URL: _url, ...environment } = process.env;

/** In memory where that is possible: how fast a disk is, is another question. */
export function locksDirectory() {
  return mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "hf-start-"));
}

/** How long import() of these takes, by a process's own clock: files of the build, or Node's own modules. */
export function importing(...modules) {
  const urls = modules.map((one) => (one.startsWith("node:") ? one : pathToFileURL(join(DIST, one)).href));
  return () => Number(started(["--input-type=module", "-e", IMPORT, ...urls], environment).stdout);
}

/** How long a program takes that Node runs: of the build, or what -e says. */
export function program([file, ...args], locks) {
  const path = file.startsWith("-") ? file : join(DIST, file);
  const env = locks === undefined ? environment : { ...environment, HOLDFAST_URL: pathToFileURL(locks).href };
  return () => {
    const startedMs = performance.now();
    started([path, ...args], env);
    return performance.now() - startedMs;
  };
}

function started(args, env) {
  const ended = spawnSync(process.execPath, args, { env, encoding: "utf8" });
  if (ended.status !== 0) throw new Error(`node ${args.join(" ")} failed: ${ended.stderr}`);
  return ended;
}

/** Rows of a table: each entrant once in each round, so that what else the machine does slows all alike. */
export function byTurns(entrants, starts, context) {
  const rows = entrants.map((one) => ({ one, times: [] }));
  for (let round = -WARM_UP; round < starts; round++) {
    context.progress(`start ${Math.max(round + 1, 0)} of ${starts}`);
    for (const { one, times } of rows) {
      const ms = one.measure();
      if (round >= 0) times.push(ms);
    }
  }
  return rows.map(({ one: { name, own, limit }, times }) => ({
    name,
    own,
    limit,
    ran: true,
    starts,
    tookMs: spread(times),
  }));
}
