import { afterAll, describe, expect, test } from "vitest";

import { Bench, MAIN, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

describe("S105: exit codes", () => {
  test.each([0, 1, 7, 255])("a command that exits with %s makes run exit with it", async (code) => {
    expect((await bench.run(["run", "exit", "--", "sh", "-c", `exit ${code}`])).code).toBe(code);
  });

  test("a command that dies of a signal makes run exit with 128 + its number", async () => {
    expect((await bench.run(["run", "killed", "--", "sh", "-c", "kill -KILL $$"])).code).toBe(137);
  });

  test("a command that is not there: 127, before the lock is asked for", async () => {
    const { code, stderr } = await bench.run(["run", "x", "--", "no-such-program"], {
      env: { HOLDFAST_URL: "nosuch:" },
    });
    expect(code).toBe(127);
    expect(stderr).toContain("no-such-program: command not found");
  });

  test("a command that cannot be executed: 126", async () => {
    expect((await bench.run(["run", "x", "--", "/etc/passwd"])).code).toBe(126);
    expect((await bench.run(["run", "x", "--", "/etc"])).code).toBe(126);
  });

  test("a lock that is not free: 75, another code with -E, and the message says who holds it", async () => {
    const holder = bench.start(["run", "busy", "--", "sh", "-c", "echo in; read x"]);
    await until(() => holder.stdout() === "in\n", "the holder runs");
    const refused = await bench.run(["run", "busy", "-n", "--", "echo", "never"]);
    expect(refused).toMatchObject({ code: 75, stdout: "" });
    expect(refused.stderr).toContain(`:${holder.pid}`);
    expect(refused.stderr).toMatch(/\n {2}More: https:.*\/errors\/ERR_LOCK_TIMEOUT\n$/);
    const late = await bench.run(["run", "busy", "-w", "100ms", "--", "echo", "never"]);
    expect(late).toMatchObject({ code: 75, stdout: "" });
    expect(late.stderr).toContain(`:${holder.pid}`);
    expect((await bench.run(["run", "busy", "-n", "-E", "1", "--", "true"])).code).toBe(1);
    expect((await bench.run(["run", "busy", "-w", "0", "-E", "0", "--", "true"])).code).toBe(0);
    expect((await bench.run(["run", "busy", "-n", "-q", "--", "true"])).stderr).toBe("");
    holder.process.stdin?.end("\n");
    expect((await holder.done).code).toBe(0);
    expect((await bench.run(["run", "busy", "-n", "--", "echo", "mine"])).stdout).toBe("mine\n");
  });

  test("a lock that the command itself runs under: 75 at once, instead of waiting for itself for ever", async () => {
    const again = [process.execPath, MAIN, "run", "self", "--", "true"];
    const { code, stderr } = await bench.run(["run", "self", "--", ...again]);
    expect(code).toBe(75);
    expect(stderr).toContain("would wait for itself");
    const other = [process.execPath, MAIN, "run", "other", "--", "true"];
    expect((await bench.run(["run", "self", "--", ...other])).code).toBe(0);
  });

  test("a store that cannot be used: 69", async () => {
    const { code, stderr } = await bench.run(["run", "x", "--", "true"], {
      env: { HOLDFAST_URL: "file:///proc/none" },
    });
    expect(code).toBe(69);
    expect(stderr).toContain("/proc/none");
  });
});

describe("S106: what the command gets", () => {
  test("its lock's name, a fence that rises, a deadline ahead, its holder and the store", async () => {
    const script = 'echo "$HOLDFAST_NAME|$HOLDFAST_FENCE|$HOLDFAST_DEADLINE|$HOLDFAST_HOLDER|$HOLDFAST_URL"';
    const fences: bigint[] = [];
    for (const _ of [1, 2]) {
      const started = bench.start(["run", "name with blanks", "--", "sh", "-c", script]);
      const [name, fence, deadline, holder, url] = (await started.done).stdout.trimEnd().split("|");
      expect({ name, url }).toEqual({ name: "name with blanks", url: bench.url });
      expect(holder).toMatch(new RegExp(`:${started.pid}$`));
      expect(Number(deadline)).toBeGreaterThan(Date.now());
      fences.push(BigInt(fence ?? ""));
    }
    expect(fences[1]).toBeGreaterThan(fences[0] ?? 0n);
  });

  test("with --max-hold the deadline is the end of it", async () => {
    const beforeMs = Date.now();
    const { stdout } = await bench.run(["run", "d", "--max-hold", "1h", "--", "sh", "-c", "echo $HOLDFAST_DEADLINE"]);
    expect(Number(stdout) - beforeMs).toBeGreaterThanOrEqual(3_600_000);
  });

  test("--url beats HOLDFAST_URL, and is what the command sees", async () => {
    const args = ["run", "a", "--url", bench.url, "--", "sh", "-c", "echo $HOLDFAST_URL"];
    expect((await bench.run(args, { env: { HOLDFAST_URL: "nosuch:" } })).stdout).toBe(`${bench.url}\n`);
  });

  test("stdin passes through, stdout is its own, and its arguments are not touched by any shell", async () => {
    const cat = await bench.run(["run", "a", "--", "cat"], { input: "one\ntwo" });
    expect(cat).toMatchObject({ code: 0, stdout: "one\ntwo", stderr: "" });
    const odd = ["$HOME", "a  b", "*", "`id`", "", "-x", "--", "ü"];
    const { stdout } = await bench.run([
      "run",
      "a",
      "--",
      process.execPath,
      "-p",
      "JSON.stringify(process.argv.slice(1))",
      "--",
      ...odd,
    ]);
    expect(JSON.parse(stdout)).toEqual(odd);
  });

  test("its environment is ours, also names that a shell would drop", async () => {
    const env = { "A.B": "dotted", "npm-x": "y z", EMPTY: "", MULTI: "one\ntwo", PWD: undefined };
    const print =
      "const { PWD, ...e } = process.env; console.log(JSON.stringify([e['A.B'], e['npm-x'], e.EMPTY, e.MULTI, PWD === undefined]))";
    const { stdout } = await bench.run(["run", "a", "--", process.execPath, "-e", print], { env });
    expect(JSON.parse(stdout)).toEqual(["dotted", "y z", "", "one\ntwo", true]);
  });

  test("no open file but its own three", async () => {
    // Looked at by a child while the shell waits: it has neither a pipe nor a directory open then.
    const { stdout } = await bench.run(["run", "a", "--", "sh", "-c", "ls /proc/$$/fd; :"]);
    expect(
      stdout
        .trim()
        .split("\n")
        .filter((fd) => Number(fd) < 10),
    ).toEqual(["0", "1", "2"]);
  });
});

describe("what others see", () => {
  test("ls and show tell holder, app, reason, meta, fence, mode and the waiters in order", async () => {
    const holder = bench.start([
      "run",
      "seen",
      "--reason",
      "migrating",
      "--meta",
      "version=1.4",
      "--",
      "sh",
      "-c",
      "echo $HOLDFAST_FENCE; read x",
    ]);
    const fence = await until(() => /^\d+$/m.exec(holder.stdout())?.[0], "the holder runs");
    const first = bench.start(["run", "seen", "--reason", "first", "--", "true"], { input: "" });
    const waiting = async (n: number): Promise<{ holder: string }[]> => {
      for (;;) {
        const { pending } = JSON.parse((await bench.run(["show", "seen", "--json"])).stdout) as {
          pending: { holder: string }[];
        };
        if (pending.length === n) return pending;
      }
    };
    await waiting(1);
    const second = bench.start(["run", "seen", "--reason", "second", "--", "true"], { input: "" });
    const pending = await waiting(2);
    expect(pending.map((one) => one.holder.split(":").at(-1))).toEqual([String(first.pid), String(second.pid)]);
    expect(pending).toMatchObject([
      { position: 1, meta: { reason: "first" } },
      { position: 2, meta: { reason: "second" } },
    ]);

    const shown = JSON.parse((await bench.run(["show", "seen", "--json"])).stdout) as { held: object[] };
    expect(shown.held).toMatchObject([
      {
        name: "seen",
        pid: holder.pid,
        app: "sh",
        version: "1.4",
        fence,
        mode: "exclusive",
        meta: { reason: "migrating" },
      },
    ]);
    const text = await bench.run(["show", "seen"]);
    for (const part of [`:${holder.pid}`, "1.4", fence, "exclusive", "migrating", "1.", "first", "2.", "second"]) {
      expect(text.stdout).toContain(part);
    }
    const list = await bench.run(["ls"]);
    expect(list.stdout).toMatch(new RegExp(`^seen +exclusive +\\S+:${holder.pid} \\(sh 1\\.4\\) .* ${fence} +2$`, "m"));
    expect((await bench.run(["ls", "-q"])).stdout.split("\n")).toContain("seen");
    expect((await bench.run(["ls", "-q", "other"])).stdout).toBe("");
    expect((await bench.run(["wait", "seen", "-n"])).code).toBe(75);

    holder.process.stdin?.end("\n");
    expect((await Promise.all([holder.done, first.done, second.done])).map(({ code }) => code)).toEqual([0, 0, 0]);
    expect((await bench.run(["wait", "seen", "--wait", "10s"])).code).toBe(0);
    expect(await bench.run(["show", "seen", "-q"])).toMatchObject({ code: 1, stdout: "" });
  });

  test("shared holders hold together, and at most --limit hold at once", async () => {
    const start = (name: string, ...flags: string[]) =>
      bench.start(["run", name, ...flags, "--", "sh", "-c", "echo in; read x"]);
    const readers = [start("rw", "-s"), start("rw", "-s")];
    await until(() => readers.every((one) => one.stdout() === "in\n"), "both readers hold");
    expect((await bench.run(["run", "rw", "-n", "--", "true"])).code).toBe(75);
    const three = [start("sem", "--limit", "2"), start("sem", "--limit", "2")];
    await until(() => three.every((one) => one.stdout() === "in\n"), "both hold");
    expect((await bench.run(["run", "sem", "--limit", "2", "-n", "--", "true"])).code).toBe(75);
    for (const one of [...readers, ...three]) one.process.stdin?.end("\n");
    await Promise.all([...readers, ...three].map((one) => one.done));
    expect((await bench.run(["run", "sem", "--limit", "2", "-n", "--", "true"])).code).toBe(0);
  });

  test("--min-hold keeps the lock taken after the command has ended", async () => {
    bench.leaves(/ on cron$/, "it stays taken for an hour: that is what is tested");
    expect((await bench.run(["run", "cron", "--min-hold", "1h", "--", "true"])).code).toBe(0);
    expect((await bench.run(["run", "cron", "-n", "--", "true"])).code).toBe(75);
  });
});
