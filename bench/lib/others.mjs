/** How much of the machine others used meanwhile: everything that this process has not started, and what the host took away. */
import { readdirSync, readFileSync } from "node:fs";

/** Of /proc/stat, in ticks: what was busy or stolen, and all. Where there is no such file, nothing is known of others. */
export function readMachine() {
  try {
    const [, ...numbers] = readFileSync("/proc/stat", "utf8").split("\n", 1)[0].split(/\s+/);
    const [user, nice, system, idle, waiting, irq, softIrq, stolen] = numbers.map(Number);
    const busy = user + nice + system + irq + softIrq + stolen;
    return { busy, all: busy + idle + waiting, own: ownTicks() };
  } catch {
    return undefined;
  }
}

/** The part of the machine's time that others used since `before`, 0 to 1. */
export function othersSince(before, now = readMachine()) {
  if (before === undefined || now === undefined || now.all === before.all) return 0;
  const others = now.busy - before.busy - (now.own - before.own);
  return Math.min(1, Math.max(0, others / (now.all - before.all)));
}

/** Of this process and all that it has started, with those that have ended. */
function ownTicks() {
  const all = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = statOf(name);
    if (stat !== undefined) all.set(Number(name), stat);
  }
  return [...all].filter(([pid]) => isOwn(pid, all)).reduce((sum, [, { ticks }]) => sum + ticks, 0);
}

function statOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    const [user, system, userOfEnded, systemOfEnded] = fields.slice(11, 15).map(Number);
    return { parent: Number(fields[1]), ticks: user + system + userOfEnded + systemOfEnded };
  } catch {
    // It has just ended.
    return undefined;
  }
}

function isOwn(pid, all) {
  for (let at = pid; at !== undefined && at > 1; at = all.get(at)?.parent) if (at === process.pid) return true;
  return false;
}
