/** The guard against getting slower: what it compares, and when it speaks. */
import { expect, test } from "vitest";
import { CHECKED, judge, MAY_GROW, NEW, OLD, ratiosOf, readRatios, textOf } from "../../bench/lib/check.mjs";

const part = (id: string, now: object, before: object): object => ({
  id,
  rows: [
    { name: NEW, ran: true, ...now },
    { name: OLD, ran: true, ...before },
    { name: "a peer", ran: true, clientCpuUs: 1 },
  ],
});

test("each figure of the working tree is divided by that of the last release, where both have it", () => {
  const parts = [
    part("1-loop", { clientCpuUs: 12, perSecond: 1 }, { clientCpuUs: 10, perSecond: 2 }),
    part("idle", { cpuPercent: 3, clientCpuUs: Number.NaN }, { cpuPercent: 2, clientCpuUs: 4 }),
    { id: "new", rows: [{ name: NEW, ran: true, clientCpuUs: 1 }] },
    {
      id: "broken",
      rows: [
        { name: NEW, ran: true, clientCpuUs: 1 },
        { name: OLD, ran: false, clientCpuUs: 1 },
      ],
    },
  ];
  expect(ratiosOf({ memory: { parts } })).toEqual({ "memory/1-loop/clientCpuUs": 1.2, "memory/idle/cpuPercent": 1.5 });
});

test("what has grown by more than 15 % against the committed ratio is found, and what is measured no more", () => {
  const committed = { "memory/a/clientCpuUs": 1.2, "memory/b/clientCpuUs": 0.8, "memory/c/clientCpuUs": 1 };
  const limit = 1.2 * MAY_GROW;
  expect(
    judge({ "memory/a/clientCpuUs": limit, "memory/b/clientCpuUs": 0.8, "memory/c/clientCpuUs": 1 }, committed),
  ).toEqual([]);
  const findings = judge({ "memory/a/clientCpuUs": limit + 0.01, "memory/b/clientCpuUs": 0.1 }, committed);
  expect(findings.map(({ id }) => id)).toEqual(["memory/a/clientCpuUs", "memory/c/clientCpuUs"]);
  expect(findings.map(textOf)).toEqual([
    "memory, a: client CPU per cycle is 1.16 of what was committed (1.390 of the last release, committed 1.200)",
    "memory, c: client CPU per cycle was not measured",
  ]);
});

test("ratios are committed for every suite that is checked", () => {
  const suites = new Set(Object.keys(readRatios().ratios).map((id) => id.split("/")[0]));
  expect([...suites].toSorted()).toEqual([...CHECKED].toSorted());
});
