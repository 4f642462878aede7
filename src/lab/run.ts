/** Runs scenarios: opens a stage for each play, judges it, and reports progress. */
import { judge } from "./judge.ts";
import type { Verdict } from "./judge.ts";
import { play } from "./play.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import type { StageName } from "./stage.ts";
import { openStage } from "./stages/all.ts";

export interface RunOptions {
  /** Absent: every backend for which a scenario promises something. */
  readonly backends?: readonly StageName[] | undefined;
  /** How many plays at once. More is faster, and noisier. @default 2 */
  readonly jobs?: number | undefined;
  /** Called when a play begins. */
  readonly onStart?: ((scenario: Scenario, backend: StageName, left: number) => void) | undefined;
  readonly onVerdict?: ((verdict: Verdict) => void) | undefined;
}

/** Plays every scenario on every backend that applies. Verdicts come back in the order of the scenarios. */
export async function runScenarios(
  scenarios: readonly Scenario[],
  options: RunOptions = {},
): Promise<readonly Verdict[]> {
  const plays = scenarios.flatMap((scenario) =>
    backendsOf(scenario, options.backends).map((backend) => ({ scenario, backend })),
  );
  const verdicts: Verdict[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < plays.length; at = next++) {
      const { scenario, backend } = plays[at] as (typeof plays)[number];
      options.onStart?.(scenario, backend, plays.length - at);
      const verdict = await playOnce(scenario, backend);
      options.onVerdict?.(verdict);
      verdicts[at] = verdict;
    }
  };
  await Promise.all(Array.from({ length: options.jobs ?? 2 }, work));
  return verdicts;
}

export function backendsOf(scenario: Scenario, wanted?: readonly StageName[]): readonly StageName[] {
  const all = Object.keys(scenario.outcomes) as StageName[];
  return wanted === undefined ? all : all.filter((backend) => wanted.includes(backend));
}

async function playOnce(scenario: Scenario, backend: StageName): Promise<Verdict> {
  await using stage = await openStage(backend, scenario);
  return judge(await play(scenario, stage));
}
