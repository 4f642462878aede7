/**
 * Programs that once broke a rule, each shrunk to what it needs. The generator made up most of them by itself on 83aced5;
 * programs.ts names the seeds. They run as in `npm run fuzz`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Program } from "../../src/testing/programs/program.ts";
import { runProgram } from "../../src/testing/programs/run.ts";
import { ROOT } from "../dist.ts";
import { endless, programs } from "./programs.ts";

/** Empty when all is well; else what broke, and how it came to that. */
async function outcome(program: Program): Promise<string> {
  const { findings, log } = await runProgram(program, { trace: true });
  const broken = findings.map(({ rule, message }) => `${rule}: ${message}`);
  return broken.length === 0 ? "" : [...broken, ...log].join("\n");
}

for (const { id, title, program } of programs) {
  test(`${id}: ${title}`, async () => {
    expect(await outcome(program)).toBe("");
  });
}

test("S128: a listener that releases another lease does not make the watchdog loop", async () => {
  // In a process of its own, whose guard ends a timer that loops: here it would take the test with it.
  const fuzz = join(ROOT, "scripts/fuzz.mjs");
  const child = spawn(process.execPath, [fuzz, "--json", "--program", JSON.stringify(endless)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (data: Buffer) => (output += data.toString()));
  await once(child, "close");
  const lines = output.trim().split("\n");
  expect(lines.slice(0, -1)).toEqual([]);
  expect(JSON.parse(lines.at(-1)!)).toMatchObject({ programs: 1, red: 0 });
});
