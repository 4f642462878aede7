/** S127: children that hide: in sessions of their own, with another environment or none, and in chains of forks. */
import { spawnSync } from "node:child_process";
import { createReadStream, writeFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";

import { removeCgroup } from "../../src/cli/run/cgroup.ts";
import { endFamily } from "../../src/cli/run/process-tree.ts";
import { type Gated, startGated } from "../../src/cli/run/gated-start.ts";
import { findProgram } from "../../src/lab/servers/programs.ts";
import { Bench, isRunning, until } from "./harness.ts";

const bench = new Bench();
const started: Gated[] = [];
afterAll(() => {
  for (const { family: one } of started) if (one.cgroup !== undefined) removeCgroup(one.cgroup);
  bench.close();
});

/** Redis writes a title over its environment before anything else, and then over its arguments. */
async function redis(name: string): Promise<string> {
  const path = await findProgram("redis-server");
  return `${path} --daemonize yes --port 0 --unixsocket ${bench.path(`${name}.sock`)} --save '' --dir ${bench.dir} --pidfile ${bench.path(name)}`;
}

/** A daemon as books describe it: two forks, a session of its own. Its environment is `env`. */
function daemon(name: string, env: string): string {
  const inside = `echo $$ > ${bench.path(name)}; while :; do sleep 1; done`;
  return `(setsid env ${env} sh -c '${inside}' > /dev/null 2>&1 < /dev/null &)`;
}

async function pidIn(name: string): Promise<number> {
  return Number(await until(() => bench.lines(name)[0], `${name} runs`));
}

/** Starts a shell script as `run` does. */
async function family(script: string, cgroup: boolean): Promise<Gated> {
  const env = { ...process.env, HOLDFAST_NAME: "hiding" };
  const gated = await startGated({ path: "/bin/sh", args: ["-c", script], env, ownGroup: true, cgroup });
  gated.open();
  started.push(gated);
  return gated;
}

const WAYS = [
  ["with a control group where one can be made", true],
  ["without a control group", false],
] as const;

describe.each(WAYS)("S127: %s", (_, cgroup) => {
  const name = (text: string): string => `${text}-${cgroup}`;

  test.each([
    ["redis-server, which rewrites its environment", "redis"],
    ["a daemon with an empty environment", "-i PATH=/usr/bin:/bin"],
    [
      "a variable whose name ends like the mark's",
      '-i PATH=/usr/bin:/bin A_HOLDFAST_RUN=x HOLDFAST_RUN="$HOLDFAST_RUN"',
    ],
    ["an environment made by hand, with what the documentation names", "-i PATH=/usr/bin:/bin HOLDFAST_NAME=hiding"],
    ["a title over the name of the mark's variable", '-u HOLDFAST_RUN TITLE="x$HOLDFAST_RUN"'],
  ])("%s is ended with its family", async (about, env) => {
    const file = name(about.replaceAll(/\W+/g, "-"));
    const script = env === "redis" ? await redis(file) : daemon(file, env);
    const gated = await family(`${script}; while :; do sleep 1; done`, cgroup);
    const pid = await pidIn(file);
    expect(isRunning(pid)).toBe(true);
    await endFamily(gated.family);
    expect(isRunning(pid)).toBe(false);
    await gated.ended;
  });

  test("the command has ended long ago, and its daemon is ended all the same", async () => {
    const file = name("orphan");
    const gated = await family(await redis(file), cgroup);
    const pid = await pidIn(file);
    await gated.ended;
    expect(isRunning(pid)).toBe(true);
    await endFamily(gated.family);
    expect(isRunning(pid)).toBe(false);
  });

  test("a daemon whose mark was cleared on purpose lives on, and so does what it starts", async () => {
    const [one, two] = [name("cleared"), name("child")];
    const child = `env -i PATH=/usr/bin:/bin sh -c "echo \\$\\$ > ${bench.path(two)}; while :; do sleep 1; done"`;
    const script = `(setsid env -u HOLDFAST_RUN sh -c 'echo $$ > ${bench.path(one)}; ${child}; :' > /dev/null 2>&1 < /dev/null &)`;
    const gated = await family(`${script}; while :; do sleep 1; done`, cgroup);
    const pids = [await pidIn(one), await pidIn(two)];
    await endFamily(gated.family);
    expect(pids.filter(isRunning)).toEqual(pids);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await gated.ended;
  });

  test("a cleared mark spares no process in the command's own session, as at a terminal", async () => {
    const file = name("same-session");
    const inside = `echo $$ > ${bench.path(file)}; while :; do sleep 1; done`;
    const args = ["-c", `env -u HOLDFAST_RUN sh -c '${inside}' & while :; do sleep 1; done`];
    const env = { ...process.env, HOLDFAST_NAME: "hiding" };
    const gated = await startGated({ path: "/bin/sh", args, env, ownGroup: false, cgroup });
    started.push(gated);
    gated.open();
    const pid = await pidIn(file);
    await endFamily(gated.family);
    expect(isRunning(pid)).toBe(false);
    await gated.ended;
  });

  test("strangers live on", async () => {
    const other = await family("exec sleep 60", cgroup);
    const gated = await family("exec sleep 60", cgroup);
    await endFamily(gated.family);
    expect([isRunning(gated.family.pid), isRunning(other.family.pid)]).toEqual([false, true]);
    await endFamily(other.family);
  });

  test.each([
    ["in one session", ""],
    ["in a session of its own each time", "setsid();"],
  ])("a chain of processes that fork and exit, %s", async (about, step) => {
    const file = name(about.replaceAll(" ", "-"));
    const alive = fifo(file);
    const gated = await family(`${chain(file, step)} ${bench.path(`${file}.fifo`)}; while :; do sleep 1; done`, cgroup);
    await until(() => alive.generation() > 5, "the chain runs");
    await endFamily(gated.family);
    // Every process of the chain has the pipe open: it ends with the last of them.
    await alive.ended;
    expect(alive.generation()).toBeLessThan(GENERATIONS);
    await gated.ended;
  });
});

const GENERATIONS = 4000;

/** A program whose processes each live for a millisecond. It ends by itself in some seconds, if it is not ended. */
function chain(file: string, step: string): string {
  const source = `
    #include <fcntl.h>
    #include <stdio.h>
    #include <unistd.h>
    extern char **environ;
    int main(int argc, char **argv) {
      int out = open(argv[1], O_WRONLY);
      if (fork() > 0) return 0;
      setsid();
      // As setproctitle() leaves it.
      for (char **e = environ; *e; e++) for (char *c = *e; *c; c++) *c = 0;
      for (int n = 1; n <= ${GENERATIONS}; n++) {
        char line[16];
        write(out, line, sprintf(line, "%d\\n", n));
        usleep(1000);
        if (fork() > 0) _exit(0);
        ${step}
      }
      return 0;
    }`;
  const path = bench.path(`${file}.bin`);
  writeFileSync(`${path}.c`, source);
  const made = spawnSync("gcc", ["-w", "-o", path, `${path}.c`], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
  return path;
}

function fifo(file: string): { generation(): number; ended: Promise<void> } {
  const path = bench.path(`${file}.fifo`);
  spawnSync("mkfifo", [path]);
  let last = 0;
  const stream = createReadStream(path, "latin1");
  stream.on("data", (text) => (last = Number(String(text).trimEnd().split("\n").at(-1))));
  const ended = new Promise<void>((resolve) => stream.on("close", () => resolve()));
  return { generation: () => last, ended };
}

describe("S127: holdfast run", () => {
  test("redis-server and double forks are dead when run exits", async () => {
    const script = `${await redis("run-redis")}; ${daemon("run-daemon", "-i PATH=/usr/bin:/bin")}; while :; do sleep 1; done`;
    const run = bench.start(["run", "hide", "--ttl", "2s", "--max-hold", "2s", "--", "sh", "-c", script]);
    const pids = [await pidIn("run-redis"), await pidIn("run-daemon")];
    expect((await run.done).code).toBe(76);
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test("a daemon that ignores SIGTERM does not outlive the lease, though the command ended when it was asked to", async () => {
    const stays = `trap "" TERM; echo $$ > ${bench.path("run-stays")}; while :; do sleep 1; done`;
    const script = `(setsid sh -c '${stays}' > /dev/null 2>&1 < /dev/null &); while :; do sleep 1; done`;
    const run = bench.start(["run", "hide", "--ttl", "6s", "--max-hold", "6s", "--", "sh", "-c", script]);
    const pid = await pidIn("run-stays");
    expect((await run.done).code).toBe(76);
    expect(isRunning(pid)).toBe(false);
  });

  test("the warden ends them when holdfast is killed", async () => {
    const script = `${await redis("warden-redis")}; while :; do sleep 1; done`;
    const run = bench.start(["run", "hide", "--", "sh", "-c", script]);
    const pid = await pidIn("warden-redis");
    run.process.kill("SIGKILL");
    await until(() => !isRunning(pid), "it is ended");
  });

  test("env -u HOLDFAST_RUN: a daemon that shall survive a lost lease does", async () => {
    const script = `(setsid env -u HOLDFAST_RUN sh -c 'echo $$ > ${bench.path("kept")}; exec sleep 60' > /dev/null 2>&1 < /dev/null &); while :; do sleep 1; done`;
    const run = bench.start(["run", "hide", "--ttl", "2s", "--max-hold", "2s", "--", "sh", "-c", script]);
    const pid = await pidIn("kept");
    expect((await run.done).code).toBe(76);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });
});
