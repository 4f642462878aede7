/** The judge of what CLI tests leave can fail: a process, a lease, a waiting claim and a torn note turn it red. */
import { mkdirSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LeftoverError } from "../../src/testing/leftovers.ts";
import { Bench, isRunning, until } from "./harness.ts";

test("a bench on which nothing is left closes, also one on which nothing was done", async () => {
  const [idle, used] = [new Bench(), new Bench()];
  const fence = (await used.run(["acquire", "x"])).stdout.trim();
  expect((await used.run(["release", "x", "--fence", fence])).code).toBe(0);
  for (const bench of [idle, used]) expect(() => bench.close()).not.toThrow();
});

test("each kind of leftover is seen, named and removed, unless the test said why it is there", async () => {
  const bench = new Bench();
  expect((await bench.run(["acquire", "kept"])).code).toBe(0);
  const waiting = bench.start(["acquire", "kept"], { input: "" });
  const queued = async (): Promise<number> =>
    (JSON.parse((await bench.run(["show", "kept", "--json"])).stdout) as { pending: unknown[] }).pending.length;
  while ((await queued()) === 0);
  mkdirSync(bench.path("claims"), { recursive: true });
  writeFileSync(bench.path("claims/half-written"), "");
  bench.leaves(/half-written/, "it was put there by this very test");
  let error: unknown;
  try {
    bench.close();
  } catch (reason) {
    error = reason;
  }
  expect(error).toBeInstanceOf(LeftoverError);
  const message = String(error);
  expect(message).toMatch(/a process: .*main\.m?js acquire kept/);
  expect(message).toMatch(/a lease of \S+ on kept/);
  expect(message).toMatch(/a waiting claim of \S+ on kept/);
  expect(message).not.toContain("half-written");
  await until(() => !isRunning(waiting.pid), "the process was ended");
  expect(() => bench.leaves(/x/, "because")).toThrow(TypeError);
});

test("a file that is no note is seen", async () => {
  const bench = new Bench();
  mkdirSync(bench.path("claims"));
  writeFileSync(bench.path(`claims/${"a".repeat(22)}-1.json.0123456789ab`), "");
  expect(() => bench.close()).toThrow(/a file a+-1\.json\.0123456789ab/);
});
