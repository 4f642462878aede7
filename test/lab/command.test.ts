import { expect, test } from "vitest";
import { labCommand } from "../../src/lab/command.ts";
import type { LabIo } from "../../src/lab/command.ts";
import { scenarios } from "../../src/lab/scenarios/all.ts";
import { findProgram } from "../../src/lab/servers/programs.ts";

function fakeIo(): LabIo & { readonly printed: string[]; readonly noted: string[]; readonly documents: unknown[] } {
  const printed: string[] = [];
  const noted: string[] = [];
  const documents: unknown[] = [];
  return {
    printed,
    noted,
    documents,
    env: {},
    stderr: process.stderr,
    print: (line) => void printed.push(line),
    note: (line) => void noted.push(line),
    json: (value) => void documents.push(value),
    style: (_stream, _style, text) => text,
  };
}

test("lab lists every scenario with its backends", async () => {
  const io = fakeIo();
  expect(await labCommand([], io)).toBe(0);
  expect(io.printed.length).toBe(scenarios.length);
  expect(io.printed.find((line) => line.startsWith("pause "))).toContain("redis");
});

test("lab --json lists them as one document", async () => {
  const io = fakeIo();
  expect(await labCommand(["list", "--json"], io)).toBe(0);
  expect(io.documents).toHaveLength(1);
  expect(io.documents[0]).toHaveLength(scenarios.length);
});

test.each([
  ["an unknown scenario", ["run", "no-such"], "no-such"],
  ["an unknown backend", ["run", "pause", "--backend", "mysql"], "mysql"],
  ["a backend that the scenario does not play on", ["run", "split-vote", "--backend", "redis"], "none of these"],
  ["an unknown action", ["dance"], "dance"],
  ["an unknown flag", ["run", "--hurry"], "--hurry"],
  ["minutes that are none", ["soak", "--minutes", "soon"], "--minutes"],
  ["a backend that cannot be soaked", ["soak", "--backend", "sentinel"], "sentinel"],
])("%s is wrong usage, and nothing is started", async (_, args, word) => {
  const io = fakeIo();
  expect(await labCommand(args, io)).toBe(64);
  expect(io.noted.join()).toContain(word);
  expect(io.printed).toEqual([]);
});

test("every scenario has a name of its own, a story, a source, and promises something somewhere", () => {
  expect(new Set(scenarios.map(({ id }) => id)).size).toBe(scenarios.length);
  for (const { id, title, story, source, outcomes, steps } of scenarios) {
    expect(Object.keys(outcomes).length, id).toBeGreaterThan(0);
    expect(steps.length, id).toBeGreaterThan(1);
    for (const text of [title, story, source]) expect(text.length, id).toBeGreaterThan(5);
    for (const outcome of Object.values(outcomes)) {
      // A scenario that promises a failure says why.
      if (outcome.exclusion === "broken") expect(outcome.because, id).toBeTruthy();
    }
  }
});

test("a program that is not there is named with its Debian package", async () => {
  await expect(findProgram("redis-sentinel", { folders: ["/nowhere"], mayInstall: false })).rejects.toThrow(
    /redis-sentinel is not on this machine.*apt-get install redis-sentinel/u,
  );
});
