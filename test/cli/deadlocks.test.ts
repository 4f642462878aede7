/** Deadlocks between real processes, on every store that can show them; and `holdfast deadlocks`. */
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { startEtcd } from "../../src/lab/servers/etcd.ts";
import { startPostgres } from "../../src/lab/servers/postgres.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { DIST } from "../dist.ts";
import { Bench, type Started } from "./harness.ts";

const bench = new Bench();
const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
  bench.close();
});

async function stopped<T extends { stop(): Promise<unknown> }>(starting: Promise<T>): Promise<T> {
  const server = await starting;
  stops.push(() => server.stop());
  return server;
}

const STORES: Readonly<Record<string, () => Promise<string>>> = {
  file: async () => bench.url,
  redis: async () => (await stopped(startRedis())).url,
  postgres: async () => `${(await stopped(startPostgres())).url}?migrate=true`,
  etcd: async () => (await stopped(startEtcd())).url,
  zookeeper: async () => (await stopped(startZooKeeper())).url,
};

type Said = Readonly<Record<string, unknown>>;

const MODULE = join(DIST, "index.js");
const SCRIPT = join(import.meta.dirname, "fixtures/deadlock-process.mjs");

function said(child: Started): readonly Said[] {
  return child
    .stdout()
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Said);
}

/** Two processes with three locks: one has two contexts, which wait for each other only through the other process. */
async function start(
  url: string,
  deadlock: "report" | "reject",
  [a, b, c]: readonly string[] = ["a", "b", "c"],
): Promise<readonly Started[]> {
  const pairs = [
    [
      [a, b],
      [b, c],
    ],
    [[c, a]],
  ];
  const all = pairs.map((own) => bench.start([MODULE, url, deadlock, JSON.stringify(own)], { main: SCRIPT }));
  await eventually("all hold their first lock", () =>
    all.flatMap(said).filter((one) => "holds" in one).length === 3 ? true : undefined,
  );
  for (const child of all) child.process.stdin?.write("go\n");
  return all;
}

const results = (all: readonly Started[]): readonly Said[] => all.flatMap(said).filter((one) => "result" in one);

describe.each(Object.entries(STORES))("%s", (_, open) => {
  test("of two processes with three locks exactly one caller rejects itself, and the rest go on", async () => {
    const url = await open();
    const all = await start(url, "reject");
    for (const child of all) expect(await child.done).toMatchObject({ code: 0, stderr: "" });
    const [failed, ...more] = results(all).filter(({ result }) => result !== "done");
    expect(more).toEqual([]);
    expect(failed).toMatchObject({ result: "ERR_LOCK_DEADLOCK", members: 3 });
    expect(results(all).length).toBe(3);
    expect(all.flatMap(said).filter(({ rejects }) => rejects === true).length).toBe(1);
    const left = await bench.run(["ls", "--json", "--url", url]);
    expect(JSON.parse(left.stdout)).toMatchObject({ held: [], pending: [] });
  });
});

describe("holdfast deadlocks", () => {
  test("shows who waits for whom, while it lasts", async () => {
    const url = await STORES["redis"]!();
    expect(await bench.run(["deadlocks", "--url", url])).toMatchObject({ code: 0, stdout: "" });
    const all = await start(url, "report");
    await eventually("both processes report it", () =>
      all.every((child) => said(child).some((one) => "deadlock" in one)) ? true : undefined,
    );
    for (const one of all.flatMap(said).filter((each) => "deadlock" in each)) {
      expect(one).toEqual({ deadlock: ["a>b", "b>c", "c>a"], rejects: false });
    }
    const text = await bench.run(["deadlocks", "--url", url]);
    expect(text.code).toBe(1);
    expect(text.stdout).toMatch(/^deadlock 1 of 1\n/u);
    for (const lock of ["a", "b", "c"]) {
      expect(text.stdout).toMatch(new RegExp(`holds {6}${lock} \\(fence \\d+\\)`, "u"));
      expect(text.stdout).toMatch(new RegExp(`waits for {2}${lock}, `, "u"));
    }
    const json = await bench.run(["deadlocks", "--json", "--url", url]);
    const { deadlocks } = JSON.parse(json.stdout) as { deadlocks: { members: { holds: { fence: string }[] }[] }[] };
    expect([json.code, deadlocks.length, deadlocks[0]?.members.length]).toEqual([1, 1, 3]);
    expect(deadlocks[0]?.members[0]?.holds[0]?.fence).toMatch(/^\d+$/u);
    const dot = await bench.run(["deadlocks", "--dot", "--url", url]);
    expect(dot.stdout).toMatch(/^digraph deadlocks \{\n[^]*\n\}\n$/u);
    expect(dot.stdout.match(/ -> "[abc]" \[label="waits for"\];/gu)?.length).toBe(3);
    expect(dot.stdout.match(/ {2}"[abc]" -> "1\.\d\\n[^\\"]+"/gu)?.length).toBe(3);
    expect((await bench.run(["deadlocks", "-q", "--url", url])).stdout).toBe("");
    // No one is rejected: only who gives up ends it.
    expect(results(all)).toEqual([]);
    all[1]!.process.stdin?.write("stop\n");
    for (const child of all) expect((await child.done).code).toBe(0);
    expect(
      results(all)
        .map(({ result }) => result)
        .toSorted(),
    ).toEqual(["done", "done", "stopped"]);
    expect((await bench.run(["deadlocks", "--url", url])).code).toBe(0);
  });

  test("names that drive a terminal, end a string of Graphviz or look like a caller are only names", async () => {
    const url = `file://${bench.path("odd")}`;
    const names = ['a"\\', "b\u001b[2J\u202e\n", "1.1\nc"];
    const all = await start(url, "report", names);
    const shown = async (format: string): Promise<string> =>
      await eventually("it is seen", async () => {
        const { code, stdout } = await bench.run(["deadlocks", ...(format === "" ? [] : [format]), "--url", url]);
        return code === 1 ? stdout : undefined;
      });
    // oxlint-disable-next-line no-control-regex
    const unprintable = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/u;
    const [text, json, dot] = [await shown(""), await shown("--json"), await shown("--dot")];
    for (const one of [text, json, dot]) expect(one).not.toMatch(unprintable);
    for (const name of ['a"\\', "b\\x1b[2J\\u{202e}\\x0a", "1.1\\x0ac"]) expect(text).toContain(`waits for  ${name}, `);
    expect(json.match(/"waitsFor": "1\.1\\nc"/gu)?.length).toBe(1);
    for (const name of ['a\\"\\\\', "b\\\\x1b[2J\\\\u{202e}\\\\x0a", "1.1\\\\x0ac"])
      expect(dot).toContain(` -> "${name}" [label="waits for"];`);
    // A caller's name has a line break, where a lock's can only have what looks like one.
    expect(dot.match(/^ {2}"1\.\d\\n[^\\"]+" \[shape=ellipse\];$/gmu)?.length).toBe(3);
    all[1]!.process.stdin?.write("stop\n");
    for (const child of all) expect((await child.done).code).toBe(0);
  });

  test("exits with 64 for two formats at once, and with 69 where the store does not show who waits", async () => {
    expect((await bench.run(["deadlocks", "--dot", "--json"])).code).toBe(64);
    const members = await Promise.all([1, 2, 3].map(() => stopped(startRedis())));
    const url = `redlock://${members.map((one) => new URL(one.url).host).join(",")}`;
    const { code, stderr } = await bench.run(["deadlocks", "--url", url]);
    expect(code).toBe(69);
    expect(stderr).toContain("keep no queue");
  });
});
