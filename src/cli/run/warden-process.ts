/**
 * The warden: a small process beside `holdfast run` that ends the command when holdfast no longer can. It does so when
 * its pipe closes (holdfast was killed), and at the deadline (holdfast was stopped, or is stuck).
 * It ends only after the whole family has, so that a lease tied to its life is never free under a running grandchild.
 */
import { machineMs } from "../../contract/machine-clock.ts";
import { removeCgroup } from "./cgroup.ts";
import { endFamily, type Family } from "./process-tree.ts";

/** One line of JSON at a time. */
export interface WardenOrder {
  readonly watch?: Family | undefined;
  /** By the machine's monotonic clock. */
  readonly until?: number | undefined;
}

let family: Family | undefined;
let deadlineMs = Infinity;
let timer: NodeJS.Timeout | undefined;
let received = "";

function obey(line: string): void {
  const order = JSON.parse(line) as WardenOrder;
  if (order.watch !== undefined) family = order.watch;
  if (order.until !== undefined) deadlineMs = order.until;
  setDeadline();
}

function setDeadline(): void {
  clearTimeout(timer);
  timer = setTimeout(atDeadline, Math.min(Math.max(0, Math.ceil(deadlineMs - machineMs())), 2 ** 31 - 1));
}

/** A timer may fire a moment early: then it is set again, because nothing else would end the command. */
function atDeadline(): void {
  if (machineMs() < deadlineMs) setDeadline();
  else if (family !== undefined) void endFamily(family);
}

async function leave(): Promise<void> {
  if (family !== undefined) await endFamily(family);
  if (family?.cgroup !== undefined) removeCgroup(family.cgroup);
  process.exit(0);
}

// A signal to a whole process tree ends holdfast too, and holdfast ends the warden. Until then the warden stays.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"] as const) process.on(signal, () => {});

process.stdin.setEncoding("utf8");
process.stdin.on("data", (text: string) => {
  received += text;
  for (let end = received.indexOf("\n"); end >= 0; end = received.indexOf("\n")) {
    const line = received.slice(0, end);
    received = received.slice(end + 1);
    obey(line);
  }
});
process.stdin.on("end", () => void leave());
process.stdin.on("error", () => void leave());
