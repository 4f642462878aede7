/** The soak's counts as Markdown. */
import type { SoakCounts } from "../soak/soak.ts";

export function soakLines(
  counts: readonly SoakCounts[],
  { minutes, seed }: { minutes: number; seed: number },
): readonly string[] {
  const row = (texts: readonly (string | number)[]): string => `| ${texts.join(" | ")} |`;
  const kinds = [...new Set(counts.flatMap(({ faults }) => Object.keys(faults)))].toSorted();
  const sum = (pick: (count: SoakCounts) => number): number => counts.reduce((total, count) => total + pick(count), 0);
  const line = (label: string, pick: (count: SoakCounts) => number): string =>
    row([label, ...counts.map(pick), sum(pick)]);
  return [
    `Soak of ${minutes} minutes, seed ${seed}.`,
    "",
    row(["", ...counts.map(({ backend }) => backend), "all"]),
    row(["---", ...counts.map(() => "---:"), "---:"]),
    line("sections", ({ sections }) => sections),
    line("not acquired in time", ({ refusals }) => refusals),
    line("late writes refused by the guard", ({ refusedWrites }) => refusedWrites),
    line("events that came too late to be judged", ({ unjudged }) => unjudged),
    line("closes that a slow store did not confirm", ({ unconfirmed }) => unconfirmed),
    ...kinds.map((kind) => line(`fault: ${kind}`, ({ faults }) => faults[kind] ?? 0)),
    line("**violations**", ({ violations }) => violations.length),
    line("**leaked keys and claims**", ({ leakedKeys }) => leakedKeys.length),
    line("**leaked timers, sockets, handles**", ({ leakedHandles }) => leakedHandles.length),
    ...counts.flatMap(({ backend, spares }) => (spares === undefined ? [] : [`- ${backend}: ${spares}`])),
    ...counts.flatMap(({ backend, violations, leakedKeys, leakedHandles }) =>
      [...violations, ...leakedKeys, ...leakedHandles].slice(0, 20).map((text) => `- ${backend}: ${text}`),
    ),
  ];
}
