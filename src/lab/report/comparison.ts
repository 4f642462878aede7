/** The comparison as a Markdown table, with the settings under it. */
import type { Cell } from "../compare.ts";

const SIGNS = { good: "✓", warn: "!", bad: "✗" } as const;

export function comparisonLines(cells: readonly Cell[], settings: readonly string[]): readonly string[] {
  const titles = [...new Set(cells.map(({ entrant }) => entrant.title))];
  const scenarios = [...new Set(cells.map(({ scenario }) => scenario))];
  const row = (texts: readonly string[]): string => `| ${texts.join(" | ")} |`;
  const rows = scenarios.map((scenario) =>
    row([
      scenario.id,
      ...titles.map((title) => {
        const cell = cells.find((one) => one.scenario === scenario && one.entrant.title === title);
        return cell === undefined ? "" : `${SIGNS[cell.tone]} ${cell.words}`;
      }),
    ]),
  );
  return [
    row(["scenario", ...titles]),
    row(["---", ...titles.map(() => "---")]),
    ...rows,
    "",
    "Settings: all have the ttl of the scenario and an ioredis 5 client with a command time limit of 1 s.",
    "holdfast: defaults.",
    ...settings.map((text) => `${text}.`),
  ];
}
