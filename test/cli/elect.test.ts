import { afterAll, expect, test } from "vitest";

import { Bench, isRunning, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

test("one of three runs the command; when it is killed, another takes over", async () => {
  const script = `echo $$ >> ${bench.path("terms")}; exec sleep 600`;
  const candidates = [1, 2, 3].map(() => bench.start(["elect", "boss", "--", "sh", "-c", script], { input: "" }));
  for (let term = 1; term <= 3; term++) {
    await until(() => bench.lines("terms").length === term, `term ${term}`);
    const pids = bench.lines("terms").map(Number);
    // The process whose child is the newest command is the leader.
    const elected = candidates.find(({ pid }) => isRunning(pid) && bench.childrenOf(pid).includes(pids.at(-1) ?? 0));
    expect(pids.filter(isRunning)).toEqual([pids.at(-1)]);
    elected?.process.kill("SIGKILL");
    await elected?.done;
  }
  await until(() => !bench.lines("terms").some((pid) => isRunning(Number(pid))), "the last command is ended");
});

test("after the lease was lost the command is ended, and it campaigns again", async () => {
  const script = `echo $HOLDFAST_FENCE >> ${bench.path("lost")}; exec sleep 600`;
  const started = bench.start(["elect", "lost", "--", "sh", "-c", script], { input: "" });
  const fence = await until(() => bench.lines("lost")[0], "elected");
  expect((await bench.run(["release", "lost", "--fence", fence, "--reason", "test"])).code).toBe(0);
  const next = await until(() => bench.lines("lost")[1], "elected again");
  expect(BigInt(next)).toBeGreaterThan(BigInt(fence));
  started.process.kill("SIGTERM");
  expect((await started.done).code).toBe(143);
});

test("when the command ends by itself, so does elect, with its code", async () => {
  expect((await bench.run(["elect", "once", "--", "sh", "-c", "exit 9"])).code).toBe(9);
});

test("with --restart it campaigns again, until it is stopped", async () => {
  const file = bench.path("restarts");
  const script = `echo x >> ${file}; if [ $(wc -l < ${file}) -lt 3 ]; then exit 9; fi; exec sleep 600`;
  const started = bench.start(["elect", "again", "--restart", "--ttl", "1s", "--", "sh", "-c", script], { input: "" });
  await until(() => bench.lines("restarts").length >= 3, "three terms");
  started.process.kill("SIGTERM");
  expect((await started.done).code).toBe(143);
});

test("a program that is not there ends it at once", async () => {
  expect((await bench.run(["elect", "x", "--", "no-such-program"])).code).toBe(127);
});

test.each([
  [0, ["sh", "-c", "exit 0"]],
  [255, ["sh", "-c", "exit 255"]],
  [137, ["sh", "-c", "kill -KILL $$"]],
  [126, ["/etc/passwd"]],
] as const)("elect exits with %i", async (code, command) => {
  expect((await bench.run(["elect", `code-${code}`, "--", ...command])).code).toBe(code);
});

test("a signal while it campaigns: 128 + n, and nothing is left in the queue", async () => {
  const holder = bench.start(["run", "seat", "--", "sh", "-c", "echo in; read x"]);
  await until(() => holder.stdout() === "in\n", "the seat is taken");
  const candidate = bench.start(["elect", "seat", "--", "echo", "never"], { input: "" });
  const pending = async (): Promise<number> =>
    (JSON.parse((await bench.run(["show", "seat", "--json"])).stdout) as { pending: unknown[] }).pending.length;
  while ((await pending()) === 0);
  candidate.process.kill("SIGHUP");
  expect(await candidate.done).toMatchObject({ code: 129, stdout: "" });
  expect(await pending()).toBe(0);
  holder.process.stdin?.end("\n");
  expect((await holder.done).code).toBe(0);
});

test("wrong usage: 64; a store that refuses: 69; neither runs the command", async () => {
  expect(await bench.run(["elect", "x", "--wait", "1s", "--", "echo", "never"])).toMatchObject({
    code: 64,
    stdout: "",
  });
  expect(await bench.run(["elect", "x"])).toMatchObject({ code: 64 });
  const away = { env: { HOLDFAST_URL: "redis://127.0.0.1:1" }, input: "" };
  expect(await bench.run(["elect", "x", "--", "echo", "never"], away)).toMatchObject({ code: 69, stdout: "" });
});
