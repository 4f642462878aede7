/** A process whose main thread has ended while another works on: the kernel calls it a zombie, and it is none. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { removeCgroup } from "../../src/cli/run/cgroup.ts";
import { endFamily } from "../../src/cli/run/process-tree.ts";
import { startGated } from "../../src/cli/run/gated-start.ts";
import { Bench, isRunning, until } from "./harness.ts";

const bench = new Bench();
const ghosts: number[] = [];
afterAll(() => {
  for (const pid of ghosts) if (isRunning(pid)) process.kill(pid, "SIGKILL");
  bench.close();
});

/** Forks, in a session of its own if asked to, tells its pid, and leaves the work to its second thread. */
const SOURCE = `
  #include <pthread.h>
  #include <stdio.h>
  #include <unistd.h>
  static void *work(void *path) {
    FILE *out = fopen(path, "w");
    fprintf(out, "%d\\n", getpid());
    fclose(out);
    for (;;) pause();
  }
  int main(int argc, char **argv) {
    if (fork() > 0) return 0;
    if (argc > 2) { setsid(); if (fork() > 0) _exit(0); }
    close(0); close(1); close(2);
    pthread_t thread;
    pthread_create(&thread, 0, work, argv[1]);
    pthread_exit(0);
  }`;

const PROGRAM = bench.path("ghost");
beforeAll(() => {
  writeFileSync(`${PROGRAM}.c`, SOURCE);
  const made = spawnSync("gcc", ["-w", "-pthread", "-o", PROGRAM, `${PROGRAM}.c`], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
});

/** Its pid, as soon as the kernel calls it a zombie. */
async function ghost(file: string): Promise<number> {
  const pid = Number(await until(() => bench.lines(file)[0], `${file} runs`));
  ghosts.push(pid);
  await until(() => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1")), "its main thread has ended");
  return pid;
}

describe("a process whose main thread has ended", () => {
  test.each([
    ["with a control group where one can be made", true],
    ["without a control group", false],
  ])("%s: is ended with its family", async (_, cgroup) => {
    const file = `ended-${cgroup}`;
    const args = ["-c", `${PROGRAM} ${bench.path(file)} setsid; while :; do sleep 1; done`];
    const gated = await startGated({ path: "/bin/sh", args, env: process.env, ownGroup: true, cgroup });
    gated.open();
    const pid = await ghost(file);
    await endFamily(gated.family);
    expect(isRunning(pid)).toBe(false);
    await gated.ended;
    if (gated.family.cgroup !== undefined) removeCgroup(gated.family.cgroup);
  });

  test("that the command left in its session keeps the lock until it ends", async () => {
    const run = bench.start(["run", "left", "--", PROGRAM, bench.path("left")]);
    const pid = await ghost("left");
    const first = await Promise.race([
      run.done.then(() => "run ended"),
      until(() => run.stderr().includes("something it started still runs"), "run waits").then(() => "run waits"),
    ]);
    expect(first).toBe("run waits");
    expect((await bench.run(["run", "left", "-n", "--", "true"])).code).toBe(75);
    process.kill(pid, "SIGKILL");
    expect((await run.done).code).toBe(0);
  });

  test("in a session of its own is dead when run exits because its lease was lost", async () => {
    const script = `${PROGRAM} ${bench.path("lost")} setsid; while :; do sleep 1; done`;
    const run = bench.start(["run", "lost", "--ttl", "2s", "--max-hold", "2s", "--", "sh", "-c", script]);
    const pid = await ghost("lost");
    expect((await run.done).code).toBe(76);
    expect(isRunning(pid)).toBe(false);
  });
});
