/** Prints at the end of a run what each room cost, and fails it where a room went beyond its budget. */
import { availableParallelism } from "node:os";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";
import { type Cost, judge, type Verdict } from "./judge.ts";
import { BUDGETS, MOST_ELAPSED } from "./rooms.ts";
import { machineSpentMs, spentMs } from "./spent.ts";

export class BudgetReporter implements Reporter {
  #beganMs = 0;
  #spentMs = 0;
  #machineMs = 0;

  onInit(): void {
    this.#beganMs = performance.now();
    this.#spentMs = spentMs();
    this.#machineMs = machineSpentMs();
  }

  onTestRunEnd(modules: readonly TestModule[], _: unknown, reason: TestRunEndReason): void {
    if (reason === "interrupted") return;
    const elapsedMs = performance.now() - this.#beganMs;
    const othersMs = machineSpentMs() - this.#machineMs - (spentMs() - this.#spentMs);
    const verdict = judge(
      {
        files: modules.map((module) => ({ path: module.relativeModuleId, ...costOf(module) })),
        elapsed: elapsedMs / 1000,
        others: othersMs / (elapsedMs * availableParallelism()),
      },
      BUDGETS,
      MOST_ELAPSED,
    );
    console.log(table(verdict, othersMs / (elapsedMs * availableParallelism())));
    if (verdict.broken.length === 0) return;
    console.error(`Beyond the budget:\n${verdict.broken.map((line) => `  ${line}`).join("\n")}\n`);
    // A run that failed anyway has its own code.
    process.exitCode ||= 1;
  }
}

function costOf(module: TestModule): Cost {
  const { collectDuration, duration, environmentSetupDuration, prepareDuration, setupDuration } = module.diagnostic();
  const timeMs = collectDuration + duration + environmentSetupDuration + prepareDuration + setupDuration;
  // A file that failed before its hooks ran has noted nothing, and is red all the same.
  return { cpu: (module.meta().spentMs ?? 0) / 1000, time: timeMs / 1000 };
}

function table({ calm, rooms }: Verdict, others: number): string {
  const line = (name: string, ...cells: readonly string[]): string =>
    `  ${name.padEnd(34)}${cells.map((cell) => cell.padStart(8)).join("")}`;
  const lines = [...rooms]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([room, { cpu, time }]) => {
      const budget = BUDGETS[room] as Cost;
      return line(room, cpu.toFixed(1), budget.cpu.toFixed(), time.toFixed(1), budget.time.toFixed());
    });
  const share = `others used ${Math.round(others * 100)} % of the machine${calm ? "" : ", so times are not judged"}`;
  return [`\n Rooms, in seconds; ${share}`, line("", "cpu", "of", "time", "of"), ...lines, ""].join("\n");
}
