/** `holdfast once`: one of many runs the command, and what becomes of the others. */
import { afterAll, expect, test } from "vitest";
import { connect } from "../../src/connect.ts";
import { Bench, isRunning, MAIN, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

const KEEP = ["--keep", "1h"];

test("of five at once one runs it, and all exit with 0 when that one is done", async () => {
  const script = `echo $HOLDFAST_FENCE >> ${bench.path("runs")}; while [ ! -e ${bench.path("go")} ]; do sleep 0.1; done`;
  const all = [1, 2, 3, 4, 5].map(() => bench.start(["once", "job", ...KEEP, "--", "sh", "-c", script], { input: "" }));
  await until(() => bench.lines("runs").length === 1, "one runs it");
  bench.write("go", "");
  for (const { done } of all) expect((await done).code).toBe(0);
  expect(bench.lines("runs")).toHaveLength(1);
  const late = await bench.run(["once", "job", ...KEEP, "--", "sh", "-c", script]);
  expect(late).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/job was done .* ago \(fence \d+\), so sh was not run/u) as string,
  });
  const json = await bench.run(["once", "job", ...KEEP, "--json", "--", "sh", "-c", script]);
  expect(JSON.parse(json.stderr)).toMatchObject({ event: "done", replayed: true, fence: bench.lines("runs")[0] });
  expect((await bench.run(["once", "job", ...KEEP, "-q", "--", "true"])).stderr).toBe("");
  expect(bench.lines("runs")).toHaveLength(1);
});

test("a command that fails exits with its code, and the next one runs", async () => {
  expect((await bench.run(["once", "fails", ...KEEP, "--", "sh", "-c", "exit 9"])).code).toBe(9);
  expect((await bench.run(["once", "fails", ...KEEP, "--", "sh", "-c", "kill -KILL $$"])).code).toBe(137);
  expect(await bench.run(["once", "fails", ...KEEP, "--", "echo", "ran"])).toMatchObject({ code: 0, stdout: "ran\n" });
});

test("with --keep-failure no process runs it, and all exit with the same code", async () => {
  const keep = [...KEEP, "--keep-failure", "1h"];
  expect((await bench.run(["once", "kept", ...keep, "--", "sh", "-c", "exit 9"])).code).toBe(9);
  const next = await bench.run(["once", "kept", ...keep, "--", "echo", "ran"]);
  expect(next).toMatchObject({ code: 9, stdout: "", stderr: expect.stringContaining("kept has failed") as string });
});

test("what a program's once() has done is done here, too, and its failure is a failure", async () => {
  await using locks = await connect(bench.url);
  await locks.once("mixed", { keep: "1h" }, () => ({ rows: 7 }));
  expect(await bench.run(["once", "mixed", ...KEEP, "--", "echo", "ran"])).toMatchObject({ code: 0, stdout: "" });
  const failing = locks.once("bad", { keep: "1h", keepFailure: "1h" }, () => Promise.reject(new Error("no rows")));
  await expect(failing).rejects.toThrow("no rows");
  const { code, stderr } = await bench.run(["once", "bad", ...KEEP, "--", "echo", "ran"]);
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining("no rows") as string });
  expect((await bench.run(["once", "cli", ...KEEP, "--", "true"])).code).toBe(0);
  expect(await locks.once("cli", { keep: "1h" }, () => "ran")).toMatchObject({ replayed: true });
});

test("a value that was too large to be kept is no failure, and no kept failure is a success", async () => {
  await using locks = await connect(bench.url);
  await locks.once("large", { keep: "1h" }, () => "x".repeat(70_000));
  expect(await bench.run(["once", "large", ...KEEP, "--", "echo", "ran"])).toMatchObject({ code: 0, stdout: "" });
  for (const code of ["EXIT_0", "EXIT_256", "EXIT_300"]) {
    const work = (): never => {
      throw Object.assign(new Error("no"), { name: "CommandFailed", code });
    };
    await expect(locks.once(code, { keep: "1h", keepFailure: "1h" }, work)).rejects.toThrow("no");
    expect((await bench.run(["once", code, ...KEEP, "--", "true"])).code).toBe(1);
  }
});

test("one that is killed is replaced, and its command does not outlive it", async () => {
  const script = `echo $$ >> ${bench.path("killed")}; [ $(wc -l < ${bench.path("killed")}) -gt 1 ] || exec sleep 600`;
  const first = bench.start(["once", "killed", ...KEEP, "--", "sh", "-c", script], { input: "" });
  await until(() => bench.lines("killed").length === 1, "the first runs");
  const second = bench.start(["once", "killed", ...KEEP, "--", "sh", "-c", script], { input: "" });
  first.process.kill("SIGKILL");
  await first.done;
  expect((await second.done).code).toBe(0);
  expect(bench.lines("killed").map((pid) => isRunning(Number(pid)))).toEqual([false, false]);
});

test("-n and --wait give up while another one runs it, with 75 or the code of -E", async () => {
  await using locks = await connect(bench.url);
  await using _lease = await locks.acquire("busy");
  expect((await bench.run(["once", "busy", ...KEEP, "-n", "--", "true"])).code).toBe(75);
  expect((await bench.run(["once", "busy", ...KEEP, "--wait", "200ms", "-E", "3", "--", "true"])).code).toBe(3);
});

test("a signal while it waits: 128 + n, and nothing is left; while the command runs, it is the command's", async () => {
  await using locks = await connect(bench.url);
  const lease = await locks.acquire("stopped");
  const waiting = bench.start(["once", "stopped", ...KEEP, "--keep-failure", "1h", "--", "true"], { input: "" });
  await until(async () => (await locks.inspect("stopped")).pending.length === 1, "it waits");
  waiting.process.kill("SIGTERM");
  expect((await waiting.done).code).toBe(143);
  await lease.release();
  expect(await locks.outcome("stopped")).toEqual({ state: "none" });
  const script = `trap 'exit 5' TERM; echo x > ${bench.path("trapped")}; while :; do sleep 0.1; done`;
  const running = bench.start(["once", "stopped", ...KEEP, "--", "sh", "-c", script], { input: "" });
  await until(() => bench.lines("trapped").length === 1, "it runs");
  running.process.kill("SIGTERM");
  expect((await running.done).code).toBe(5);
  expect(await locks.outcome("stopped")).toEqual({ state: "none" });
});

test("a lease that is ended by force ends the command, nothing is kept, and the exit code is 76", async () => {
  const script = `echo $HOLDFAST_FENCE > ${bench.path("forced")}; exec sleep 600`;
  const started = bench.start(["once", "forced", ...KEEP, "--keep-failure", "1h", "--", "sh", "-c", script], {
    input: "",
  });
  const fence = await until(() => bench.lines("forced")[0], "it runs");
  expect((await bench.run(["release", "forced", "--fence", fence, "--reason", "test"])).code).toBe(0);
  expect((await started.done).code).toBe(76);
  await using locks = await connect(bench.url);
  expect(await locks.outcome("forced")).toEqual({ state: "none" });
});

test("inside a run of the same lock it would wait for itself", async () => {
  const { code, stderr } = await bench.run([
    "run",
    "self",
    "--",
    process.execPath,
    MAIN,
    "once",
    "self",
    ...KEEP,
    "--",
    "true",
  ]);
  expect({ code, stderr }).toMatchObject({
    code: 75,
    stderr: expect.stringContaining("would wait for itself") as string,
  });
});

test.each([
  [64, ["once", "x", "--", "true"]],
  [64, ["once", "x", "--keep", "10ms", "--", "true"]],
  [64, ["once", "x", "--keep", "2y", "--", "true"]],
  [64, ["once", "x", ...KEEP, "--shared", "--", "true"]],
  [64, ["once", "x", ...KEEP]],
  [127, ["once", "x", ...KEEP, "--", "no-such-program"]],
] as const)("exit code %i: holdfast %j", async (code, args) => {
  expect((await bench.run(args)).code).toBe(code);
});
