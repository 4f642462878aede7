/** The judge of budgets can fail, and the table leaves room for the backends that are to come. */
import { readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../dist.ts";
import { type Cost, type FileCost, judge, roomOf } from "./judge.ts";
import { BUDGETS, CORES, MOST_ELAPSED, RESERVE, WORKERS } from "./rooms.ts";
import { machineSpentMs, spentMs, sum } from "./spent.ts";

const TABLE = { "test/": { cpu: 1, time: 2 }, "test/etcd/": { cpu: 10, time: 20 } };

function verdict(files: readonly FileCost[], others = 0, elapsed = 10): readonly string[] {
  return judge({ files, elapsed, others }, TABLE, 60).broken;
}

test("a run within its budgets is fine, and costs are counted by room", () => {
  const files = [
    { path: "test/etcd/a.test.ts", cpu: 4, time: 9 },
    { path: "test/etcd/b.test.ts", cpu: 5, time: 9 },
    { path: "test/tidy.test.ts", cpu: 0.5, time: 1 },
  ];
  const { broken, calm, rooms } = judge({ files, elapsed: 10, others: 0.05 }, TABLE, 60);
  expect({ broken, calm }).toEqual({ broken: [], calm: true });
  expect([...rooms]).toEqual([
    ["test/etcd/", { cpu: 9, time: 18 }],
    ["test/", { cpu: 0.5, time: 1 }],
  ]);
});

test("a room beyond its processor time breaks the run, however busy the machine was, and its dearest files are named", () => {
  const files = [
    { path: "test/etcd/cheap.test.ts", cpu: 1, time: 1 },
    { path: "test/etcd/dear.test.ts", cpu: 15, time: 1 },
  ];
  for (const others of [0, 0.9]) {
    const [line, ...more] = verdict(files, others);
    expect(more).toEqual([]);
    expect(line).toMatch(/^test\/etcd\/ took 16 s of processor time, of 10 s\. .* test\/etcd\/dear\.test\.ts \(15 s/);
  }
});

test("a run beyond ten minutes counts on a calm machine only, and the time of one room never", () => {
  const files = [{ path: "test/etcd/slow.test.ts", cpu: 1, time: 26 }];
  expect(verdict(files)).toEqual([]);
  expect(verdict([], 0, 91)).toEqual(["all took 91 s, of 60 s"]);
  expect(verdict(files, 0.5, 91)).toEqual([]);
});

test("a test file in no room breaks the run, and every file has one", () => {
  expect(judge({ files: [{ path: "x/a.test.ts", cpu: 0, time: 0 }], elapsed: 1, others: 0 }, TABLE, 60).broken).toEqual(
    [expect.stringContaining("x/a.test.ts is in no room")],
  );
  const files = readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => relative(ROOT, join(ROOT, "test", path)));
  const rooms = new Set(files.map((path) => roomOf(path, BUDGETS)));
  // "test/" is for files that lie in no folder; a folder has a budget of its own.
  const strays = files.filter((path) => path.split("/").length > 2 && roomOf(path, BUDGETS) === "test/");
  expect(strays).toEqual([]);
  expect(Object.keys(BUDGETS).filter((room) => !rooms.has(room))).toEqual([]);
});

test("all budgets together, with those of the backends to come, fit into ten minutes on two cores", () => {
  const all: readonly Cost[] = [...Object.values(BUDGETS), ...Object.values(RESERVE)];
  expect(sum(all.map(({ cpu }) => cpu))).toBeLessThanOrEqual(MOST_ELAPSED * CORES);
  expect(sum(all.map(({ time }) => time))).toBeLessThanOrEqual(MOST_ELAPSED * WORKERS);
  expect(MOST_ELAPSED).toBeLessThanOrEqual(600);
});

test("processor time is counted: ours grows while we work, and so does the machine's", () => {
  const [ours, machine] = [spentMs(), machineSpentMs()];
  // The kernel adds to the two at different times, so each is waited for: one that stood still would be the test's time-out.
  while (spentMs() < ours + 50 || machineSpentMs() < machine + 50);
  expect(spentMs()).toBeGreaterThan(ours);
  expect(machineSpentMs()).toBeGreaterThan(machine);
});
