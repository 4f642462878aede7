/** Plays the scenarios that apply against other lock libraries, too: same faults, same judge, one table. */
import type { Library } from "./libraries/library.ts";
import { checkInstalled } from "./libraries/others.ts";
import { factsOf } from "./judge.ts";
import type { Facts } from "./judge.ts";
import { play } from "./play.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import type { StageName } from "./stage.ts";
import { openStage } from "./stages/all.ts";

export interface Entrant {
  readonly library: Library;
  readonly backend: StageName;
  readonly title: string;
}

const ENTRANTS: readonly Entrant[] = [
  { library: "holdfast", backend: "redis", title: "holdfast" },
  { library: "redlock", backend: "redis", title: "redlock" },
  { library: "redis-semaphore", backend: "redis", title: "redis-semaphore" },
  { library: "verrou", backend: "redis", title: "@verrou/core" },
  { library: "holdfast", backend: "quorum", title: "holdfast, 3 members" },
  { library: "redlock", backend: "quorum", title: "redlock, 3 members" },
  { library: "redis-semaphore-quorum", backend: "quorum", title: "redis-semaphore, 3 members" },
];

export interface Cell {
  readonly scenario: Scenario;
  readonly entrant: Entrant;
  readonly facts: Facts;
  readonly tone: "good" | "warn" | "bad";
  /** The worst that happened, in a few words. */
  readonly words: string;
}

export interface CompareOptions {
  /** Only entrants on these. @default all */
  readonly backends?: readonly StageName[] | undefined;
  /** @default 2 */
  readonly jobs?: number | undefined;
  readonly onStart?: ((scenario: Scenario, entrant: Entrant) => void) | undefined;
}

/** Plays what both sides can play. Cells come back scenario by scenario. */
export async function compare(scenarios: readonly Scenario[], options: CompareOptions = {}): Promise<readonly Cell[]> {
  const { backends } = options;
  const entrants = ENTRANTS.filter(({ backend }) => backends === undefined || backends.includes(backend));
  const plays = scenarios
    .filter(({ compares }) => compares === true)
    .flatMap((scenario) =>
      entrants
        .filter(({ backend }) => scenario.outcomes[backend] !== undefined)
        .map((entrant) => ({ scenario, entrant })),
    );
  await checkInstalled(plays.map(({ entrant }) => entrant.library));
  const cells: Cell[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < plays.length; at = next++) {
      const { scenario, entrant } = plays[at] as (typeof plays)[number];
      options.onStart?.(scenario, entrant);
      cells[at] = await playOnce(scenario, entrant);
    }
  };
  await Promise.all(Array.from({ length: options.jobs ?? 2 }, work));
  return cells;
}

async function playOnce(scenario: Scenario, entrant: Entrant): Promise<Cell> {
  await using stage = await openStage(entrant.backend, scenario);
  const facts = factsOf(await play(scenario, stage, entrant.library));
  return { scenario, entrant, facts, ...sum(facts) };
}

/** The worst first. A library's words for the result of a release are its own, so they are not held against it. */
function sum(facts: Facts): { tone: Cell["tone"]; words: string } {
  const { guarded } = facts.registers;
  const about = (what: string): boolean => facts.surprises.some((surprise) => surprise.about === what);
  const together = facts.overlapMs > 0 ? `two believed for ${Math.max(1, Math.round(facts.overlapMs))} ms` : "";
  const bad = (...words: string[]): { tone: "bad"; words: string } => ({
    tone: "bad",
    words: words.filter((word) => word !== "").join("; "),
  });
  if (about("error")) return bad("an error ended the play");
  if (guarded.stale > 0) return bad(together, "stale write accepted");
  if (about("acquire")) return bad(together, "did not get or keep the lock as it should");
  if (about("check")) return bad(together, "believed in a lost lock");
  const refused = guarded.refused > 0 ? "stale write refused" : "";
  if (together !== "") return { tone: "warn", words: refused === "" ? together : `${together}; ${refused}` };
  return { tone: "good", words: refused === "" ? "kept" : refused };
}
