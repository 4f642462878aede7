/** The command is dead before another process may start: loss, signals, grandchildren, and holdfast itself killed or stopped. */
import { once } from "node:events";
import { afterAll, describe, expect, test } from "vitest";

import { Bench, isRunning, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

/** A shell that ignores SIGTERM, has a child and a grandchild in a session of its own, and writes all their pids to `file`. */
function stubborn(file: string): readonly string[] {
  const daemon = `setsid sh -c 'trap "" TERM; echo $$ >> ${file}; while :; do sleep 1; done'`;
  return [
    "sh",
    "-c",
    `trap "" TERM; echo $$ >> ${file}; (echo $(sh -c 'echo $PPID') >> ${file}; while :; do sleep 1; done) & ${daemon} & while :; do sleep 1; done`,
  ];
}

async function pidsIn(file: string, n: number): Promise<readonly number[]> {
  await until(() => bench.lines(file).length >= n, `${n} processes run`);
  return bench.lines(file).map(Number);
}

describe("S102: the whole family is ended by the deadline", () => {
  test("a command that ignores SIGTERM, its grandchildren, and those in another session", async () => {
    const started = bench.start([
      "run",
      "s102",
      "--ttl",
      "2s",
      "--max-hold",
      "2s",
      "--grace",
      "500ms",
      "--",
      ...stubborn(bench.path("s102")),
    ]);
    const pids = await pidsIn("s102", 3);
    const { code, stderr } = await started.done;
    expect(code).toBe(76);
    expect(stderr).toMatch(/max-?hold/i);
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test("it gets SIGTERM first, and may end in peace within the grace", async () => {
    const script = "trap 'echo asked; exit 3' TERM; while :; do sleep 0.05; done";
    const { code, stdout } = await bench.run([
      "run",
      "polite",
      "--ttl",
      "2s",
      "--max-hold",
      "1s",
      "--",
      "sh",
      "-c",
      script,
    ]);
    expect({ code, stdout }).toEqual({ code: 76, stdout: "asked\n" });
  });

  test("also when it was stopped", async () => {
    const started = bench.start([
      "run",
      "stopped",
      "--ttl",
      "2s",
      "--max-hold",
      "1s",
      "--",
      "sh",
      "-c",
      `echo $$ >> ${bench.path("stopped")}; kill -STOP $$`,
    ]);
    const pids = await pidsIn("stopped", 1);
    expect((await started.done).code).toBe(76);
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test("a lease ended by force ends the command at once, and show says who did it and why", async () => {
    const started = bench.start(["run", "forced", "--ttl", "1h", "--", ...stubborn(bench.path("forced"))]);
    const pids = await pidsIn("forced", 3);
    const { held } = JSON.parse((await bench.run(["show", "forced", "--json"])).stdout) as {
      held: { fence: string }[];
    };
    const fence = held[0]?.fence ?? "";
    const wrong = await bench.run(["release", "forced", "--fence", "1", "--reason", "hung"]);
    expect(wrong.code).toBe(1);
    expect(pids.filter(isRunning)).toEqual(pids);
    expect((await bench.run(["release", "forced", "--fence", fence, "--reason", "it hangs"])).code).toBe(0);
    expect((await started.done).code).toBe(76);
    expect(pids.filter(isRunning)).toEqual([]);
    const after = await bench.run(["show", "forced"]);
    expect(after.stdout).toContain(`fence ${fence}`);
    expect(after.stdout).toMatch(/by \S+@\S+: it hangs/);
    expect((await bench.run(["release", "forced", "--fence", fence, "--reason", "again"])).code).toBe(1);
  });
});

describe("what the command leaves behind", () => {
  test("the lock is held until the last process of its session has ended, as with flock", async () => {
    const script = `(while [ ! -e ${bench.path("go")} ]; do sleep 0.02; done; echo late) & echo early`;
    const started = bench.start(["run", "left", "--", "sh", "-c", script]);
    await until(() => started.stdout() === "early\n", "the command has ended");
    await until(() => started.stderr().includes("still runs"), "it is said");
    expect((await bench.run(["run", "left", "-n", "--", "true"])).code).toBe(75);
    bench.write("go", "");
    expect(await started.done).toMatchObject({ code: 0, stdout: "early\nlate\n" });
  });

  test("a daemon, in a session of its own, does not hold the lock and lives on", async () => {
    const script = `setsid sh -c 'echo $$ > ${bench.path("daemon")}; exec sleep 60' >/dev/null 2>&1 < /dev/null & while [ ! -s ${bench.path("daemon")} ]; do sleep 0.02; done`;
    expect((await bench.run(["run", "daemon", "--", "sh", "-c", script])).code).toBe(0);
    const pid = Number(bench.lines("daemon")[0]);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });
});

describe("S104: signals", () => {
  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("%s while it waits: nothing is left in the queue, and the code is %i", async (signal, code) => {
    const name = `wait-${signal}`;
    const holder = bench.start(["run", name, "--", "sh", "-c", "echo in; read x"]);
    await until(() => holder.stdout() === "in\n", "the holder runs");
    const waiter = bench.start(["run", name, "--", "echo", "never"]);
    for (let queued = false; !queued;) {
      queued =
        (JSON.parse((await bench.run(["show", name, "--json"])).stdout) as { pending: unknown[] }).pending.length === 1;
    }
    waiter.process.kill(signal);
    expect(await waiter.done).toMatchObject({ code, stdout: "" });
    expect(JSON.parse((await bench.run(["show", name, "--json"])).stdout)).toMatchObject({ pending: [] });
    holder.process.stdin?.end("\n");
    expect((await holder.done).code).toBe(0);
  });

  test.each([
    ["SIGINT", 2],
    ["SIGTERM", 15],
    ["SIGHUP", 1],
    ["SIGUSR1", 10],
    ["SIGUSR2", 12],
    ["SIGQUIT", 3],
  ] as const)(
    "%s while it holds goes to the command's whole group; its code is passed on, the lock released",
    async (signal, n) => {
      const name = `hold-${signal}`;
      const trap = `trap 'echo got >&2; exit 40' ${n}`;
      // Not with &, which makes a shell ignore SIGINT and SIGQUIT; at the end of a pipe it is a process of its own too.
      const loop = `${trap}; echo in >&2; while :; do sleep 0.05; done`;
      const script = `${trap}; sh -c "${loop}" | sh -c "${loop}"`;
      const started = bench.start(["run", name, "--", "sh", "-c", script]);
      await until(() => started.stderr() === "in\nin\n", "both run");
      started.process.kill(signal);
      const { code, stderr } = await started.done;
      // Shells may also say "Terminated" of the sleep that they waited for.
      expect(stderr.split("\n").filter((line) => line === "got")).toHaveLength(3);
      expect(code).toBe(40);
      expect((await bench.run(["run", name, "-n", "--", "true"])).code).toBe(0);
    },
  );

  test("a command that dies of the forwarded signal: 128 + n", async () => {
    const started = bench.start(["run", "dies", "--", "sh", "-c", "echo in; exec sleep 60"]);
    await until(() => started.stdout() === "in\n", "it runs");
    started.process.kill("SIGTERM");
    expect((await started.done).code).toBe(143);
  });
});

describe("S103: holdfast itself is killed or stopped", () => {
  test("two terminals: the first is killed, its child dies, and only then the second starts", async () => {
    const log = bench.path("two");
    // Each writes begin and, as often as it can, the time: the last line of the first is when it was last alive.
    const first = bench.start([
      "run",
      "two",
      "--",
      "sh",
      "-c",
      `trap "" TERM; echo $$ > ${bench.path("two.pid")}; while :; do echo "first $(date +%s%N)" >> ${log}; done`,
    ]);
    await until(() => bench.lines("two").length > 3, "the first runs");
    const second = bench.start([
      "run",
      "two",
      "--wait",
      "5m",
      "--",
      "sh",
      "-c",
      `echo "second $(date +%s%N)" >> ${log}`,
    ]);
    for (let queued = false; !queued;) {
      queued =
        (JSON.parse((await bench.run(["show", "two", "--json"])).stdout) as { pending: unknown[] }).pending.length ===
        1;
    }
    first.process.kill("SIGKILL");
    expect((await second.done).code).toBe(0);
    expect(isRunning(Number(bench.lines("two.pid")[0]))).toBe(false);
    const lines = bench.lines("two");
    expect(lines.filter((line) => line.startsWith("second"))).toHaveLength(1);
    expect(lines.at(-1)).toMatch(/^second/);
  });

  test("killed repeatedly, at any moment: never two at once", async () => {
    // mkdir shows whether a process is inside, or was killed inside. A zombie is dead, though its parent has not waited for it.
    const inside = bench.path("inside");
    const script = [
      `if ! mkdir ${inside} 2>/dev/null; then old=$(cat ${inside}/pid 2>/dev/null)`,
      `case "$(cut -d' ' -f3 /proc/$old/stat 2>/dev/null)" in [!ZX]*) echo "two: $old and $$" >> ${bench.path("clash")};; esac; fi`,
      `echo $$ > ${inside}/pid`,
      `echo x >> ${bench.path("rounds")}`,
      "sleep 0.05 & wait",
      `rm -r ${inside}`,
    ].join("; ");
    for (let round = 0; round < 8; round++) {
      const before = bench.lines("rounds").length;
      const one = bench.start(["run", "again", "--", "sh", "-c", script], { input: "" });
      const two = bench.start(["run", "again", "--", "sh", "-c", script], { input: "" });
      if (round % 3 > 0) await until(() => bench.lines("rounds").length > before, "one is inside");
      else await new Promise((resolve) => setTimeout(resolve, 60 + round * 20));
      one.process.kill("SIGKILL");
      await Promise.all([one.done, two.done]);
    }
    expect(bench.lines("clash")).toEqual([]);
    expect(bench.lines("rounds").length).toBeGreaterThanOrEqual(8);
  });

  test("killed together with the warden: the command runs on, and so does its lease, until it ends", async () => {
    const script = `echo $$ > ${bench.path("orphan")}; while [ ! -e ${bench.path("orphan.go")} ]; do sleep 0.02; done`;
    const started = bench.start(["run", "orphan", "--ttl", "1s", "--", "sh", "-c", script]);
    const pid = Number(await until(() => bench.lines("orphan")[0], "it runs"));
    const wardens = bench.childrenOf(started.pid).filter((child) => child !== pid);
    expect(wardens).toHaveLength(1);
    // Stopped first, so that it can neither act nor be replaced.
    for (const warden of wardens) process.kill(warden, "SIGSTOP");
    started.process.kill("SIGKILL");
    await once(started.process, "exit");
    for (const warden of wardens) process.kill(warden, "SIGKILL");
    const alive = `case "$(cut -d' ' -f3 /proc/${pid}/stat 2>/dev/null)" in [!ZX]*) echo two;; *) echo one;; esac`;
    const next = bench.start(["run", "orphan", "--", "sh", "-c", alive], { input: "" });
    // Several ttls, in which the lease must not be given away.
    await new Promise((resolve) => setTimeout(resolve, 2500));
    expect(isRunning(pid)).toBe(true);
    expect(next.stdout()).toBe("");
    bench.write("orphan.go", "");
    expect((await next.done).stdout).toBe("one\n");
  });

  test("stopped past its deadline: the warden ends the whole family by then", async () => {
    const started = bench.start([
      "run",
      "frozen",
      "--ttl",
      "2s",
      "--grace",
      "200ms",
      "--",
      ...stubborn(bench.path("frozen")),
    ]);
    const pids = await pidsIn("frozen", 3);
    started.process.kill("SIGSTOP");
    await until(() => pids.filter(isRunning).length === 0, "all are ended though holdfast is stopped");
    started.process.kill("SIGCONT");
    expect((await started.done).code).toBe(76);
  });

  test("a warden that is killed is replaced", async () => {
    const started = bench.start(["run", "warden", "--ttl", "2s", "--", ...stubborn(bench.path("warden"))]);
    const pids = await pidsIn("warden", 3);
    const children = (): readonly number[] => bench.childrenOf(started.pid).filter((pid) => !pids.includes(pid));
    const [old] = await until(() => (children().length === 1 ? children() : undefined), "there is a warden");
    process.kill(old ?? 0, "SIGKILL");
    await until(() => children().length === 1 && children()[0] !== old, "there is another warden");
    // A moment, so it knows what to watch: this test is not about two faults in one millisecond.
    await new Promise((resolve) => setTimeout(resolve, 300));
    started.process.kill("SIGKILL");
    await until(() => pids.filter(isRunning).length === 0, "all are ended");
  });

  test("S144: also the seventh time, and it is said", async () => {
    const script = `echo $$ > ${bench.path("seven")}; while :; do sleep 1; done`;
    const started = bench.start(["run", "seven", "--ttl", "1h", "--", "sh", "-c", script]);
    const command = Number(await until(() => bench.lines("seven")[0], "it runs"));
    const warden = (): number | undefined => bench.childrenOf(started.pid).find((pid) => pid !== command);
    for (let round = 1; round <= 7; round++) {
      const pid = await until(warden, `there is a warden for round ${round}`);
      process.kill(pid, "SIGKILL");
      await until(() => warden() !== pid, "it is gone");
    }
    await until(warden, "there is another");
    expect(started.stderr()).toContain("the warden, which ends the command if holdfast is killed, was ended (SIGKILL)");
    expect(started.stderr()).toContain("for the 7th time");
    started.process.kill("SIGTERM");
    expect((await started.done).code).toBe(143);
  });
});
