/** Processor time: what a run of tests costs other processes on the machine, and what they cost it. Linux only. */
import { readFileSync } from "node:fs";

/** The kernel counts in hundredths of a second, on every machine that Node runs on. */
const TICK_MS = 10;

/** What this process has used, with those that it started and that have ended: the servers and programs of its tests. */
export function spentMs(): number {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // The name in brackets may hold anything; behind it come the state and then numbers: utime, stime, cutime, cstime.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return sum(fields.slice(11, 15).map(Number)) * TICK_MS;
}

/** What the whole machine has used, with what its host kept from it. */
export function machineSpentMs(): number {
  const [, user, nice, system, , , irq, softirq, steal] = (
    readFileSync("/proc/stat", "latin1").split("\n", 1)[0] ?? ""
  ).split(/\s+/u);
  return sum([user, nice, system, irq, softirq, steal].map(Number)) * TICK_MS;
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
