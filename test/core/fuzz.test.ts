/** Two thousand made-up user programs, each time the same. `npm run fuzz` runs as many more as one likes. */
import { describe, expect, test } from "vitest";
import { generateProgram } from "../../src/testing/programs/generate.ts";
import { printProgram } from "../../src/testing/programs/print.ts";
import { runProgram } from "../../src/testing/programs/run.ts";
import { shrinkProgram } from "../../src/testing/programs/shrink.ts";
import type { Program } from "../../src/testing/programs/program.ts";

const PROGRAMS = 2000;
/** On an idle core a part takes a second; beside others it must not fail for want of time. */
const PATIENCE_MS = 240_000;
const PARTS = 4;

/** What a person needs to see it again. */
async function explain(program: Program): Promise<string> {
  const [finding] = (await runProgram(program)).findings;
  if (finding === undefined) return "";
  const { program: small } = await shrinkProgram(
    program,
    finding.rule,
    async (one) => (await runProgram(one)).findings,
  );
  return `seed ${program.seed}: ${finding.rule}: ${finding.message}\n${printProgram(small)}\n${JSON.stringify(small)}`;
}

describe("made-up programs", () => {
  for (let part = 0; part < PARTS; part++) {
    const [from, to] = [(part * PROGRAMS) / PARTS + 1, ((part + 1) * PROGRAMS) / PARTS];
    test(`break no rule (seeds ${from} to ${to})`, { timeout: PATIENCE_MS }, async () => {
      for (let seed = from; seed <= to; seed++) {
        const program = generateProgram(seed);
        const { findings } = await runProgram(program);
        if (findings.length > 0) expect(await explain(program)).toBe("");
      }
    });
  }

  test("are the same for the same seed, and end the same way", { timeout: PATIENCE_MS }, async () => {
    const digests = async (): Promise<string[]> => {
      const all: string[] = [];
      for (let seed = 1; seed <= 40; seed++) {
        const { log, simulatedMs, steps } = await runProgram(generateProgram(seed), { trace: true });
        all.push(JSON.stringify([log, simulatedMs, steps]));
      }
      return all;
    };
    expect(await digests()).toEqual(await digests());
    expect(JSON.stringify(generateProgram(1))).not.toBe(JSON.stringify(generateProgram(2)));
  });

  test("use everything that a program can do", () => {
    const text = Array.from({ length: 400 }, (_, seed) => JSON.stringify(generateProgram(seed + 1))).join("");
    const does = ["run", "acquire", "try", "elect", "release", "dispose", "check", "listen", "sleep", "block", "pause"];
    does.push("suspend", "wall", "throw", "abort", "close", "force", "doubt", "all", "fork");
    for (const step of does) expect(text).toContain(`"do":"${step}"`);
    for (const fault of ["request-lost", "reply-lost", "hang", "error", "delay"]) expect(text).toContain(`"${fault}"`);
    for (const option of ["ttl", "wait", "mode", "renew", "maxHold", "minHold", "lockDelay", "signal"])
      expect(text).toContain(`"${option}":`);
  });
});
