/** The models in `spec/`, at a size that a test run can afford. `npm run spec` searches them at full size. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { findProgram } from "../../src/lab/servers/programs.ts";

interface Outcome {
  readonly name: string;
  readonly must: "hold" | "fail";
  readonly holds: boolean;
  readonly complete: boolean;
  readonly states: number;
}

const run = promisify(execFile);
let outcomes: readonly Outcome[] = [];

beforeAll(async () => {
  await findProgram("spin");
  await findProgram("gcc");
  // A check that does not come out as it must ends the runner with 1, and so this hook with its output.
  const { stdout } = await run(process.execPath, ["spec/run.mjs", "--small", "--json"]);
  outcomes = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Outcome);
  // It only ends what has failed anyway: on a busy machine the compiler and the search take their time.
}, 900_000);

function named(part: string): Outcome[] {
  const found = outcomes.filter(({ name }) => name.includes(part));
  expect(found, part).not.toEqual([]);
  return found;
}

describe("an exhaustive search", () => {
  it.each([
    "ballots: fences rise",
    "ballots: exclusion and order",
    "ballots: five members",
    "while no server forgets",
    "a quarantine of one ttl",
  ])("completes, and finds nothing against: %s", (part) => {
    for (const outcome of named(part)) {
      expect(outcome).toMatchObject({ must: "hold", holds: true, complete: true });
      expect(outcome.states).toBeGreaterThan(10_000);
    }
  });

  it.each(["outcomes: no work begins", "outcomes: beside a claim", "wanted: every hint"])(
    "completes, and finds nothing against: %s",
    (part) => {
      for (const outcome of named(part)) expect(outcome).toMatchObject({ must: "hold", holds: true, complete: true });
    },
  );

  it.each([
    "outcomes: stored in a second step",
    "outcomes: taken from a claim",
    "outcomes: looked for before",
    "outcomes: the lock is handed to a waiter",
    "outcomes: a grant is believed after",
    "outcomes: of one work only one, where the release names no fence",
    "wanted: neither hints nor renewals say it, and more work",
    "wanted: a lease that is kept until",
    "wanted: a holder that goes on",
    "greatest of per-member counters",
    "written back to a majority",
    "whose order members do not check",
    "without a floor of time",
    "restarts and no quarantine",
    "shorter than the ttl",
    "clock jumps",
  ])("still finds what is wrong with: %s", (part) => {
    for (const outcome of named(part)) expect(outcome).toMatchObject({ must: "fail", holds: false });
  });
});
