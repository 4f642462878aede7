/** What the kernel knows of a server: its connections, and the CPU time of it and all of its processes. */
import { readdirSync, readFileSync } from "node:fs";

/** Established connections of clients to a port of this machine. */
export function connectionsTo(port) {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) => readFileSync(file, "utf8").split("\n").slice(1));
  return lines.filter((line) => {
    const [, from = "", , state] = line.trim().split(/\s+/);
    return from.endsWith(local) && state === "01";
  }).length;
}

/** Of a server with a process for each connection: those that are, and those that were. In steps of 10 ms for each. */
export function treeCpuUs(pid) {
  const all = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const fields = statOf(name);
    if (fields !== undefined) all.set(Number(name), fields);
  }
  let ticks = 0;
  for (const [one, { parent, own, ended }] of all)
    if (one === pid || parent === pid) ticks += own + (one === pid ? ended : 0);
  return ticks * 10_000;
}

function statOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    const [user, system, userOfEnded, systemOfEnded] = fields.slice(11, 15).map(Number);
    return { parent: Number(fields[1]), own: user + system, ended: userOfEnded + systemOfEnded };
  } catch {
    // It has just ended.
    return undefined;
  }
}
