/** The processes of this machine as the kernel lists them in /proc. Imports nothing heavy: the warden uses it. */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";

export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  /** How many of its threads have not ended. */
  readonly threads: number;
  readonly group: number;
  readonly session: number;
  readonly startTime: string;
}

const STAT = Buffer.alloc(4096);
/** So many younger processes are tried after the list, before the listing counts as incomplete. */
const YOUNGER_MAX = 2000;

/**
 * Calls `see` for every living process, older ones first, and for those that are born meanwhile. `false`: some were gone
 * before they could be looked at, so that a child of theirs may not have been seen.
 */
export function everyProcess(see: (one: Process) => void): boolean {
  let complete = true;
  const visit = (pid: number): void => {
    const one = readProcess(pid);
    if (one === undefined) complete = false;
    else if (isLiving(one)) see(one);
  };
  let newest = newestPid();
  const listed = new Set(readdirSync("/proc").map(Number).filter(Number.isInteger));
  for (const pid of listed) visit(pid);
  // Numbers rise, so a family that forks and exits in a chain is ahead of the list: it is followed.
  for (let budget = YOUNGER_MAX; ;) {
    const now = newestPid();
    if (now === newest) return complete;
    budget -= now - newest;
    // They started again from the bottom, or come faster than they can be looked at.
    if (now < newest || budget < 0) return false;
    for (let pid = newest + 1; pid <= now; pid++) if (!listed.has(pid)) visit(pid);
    newest = now;
  }
}

/** `undefined`: no such process, or no `/proc`. */
export function readProcess(pid: number): Process | undefined {
  try {
    const stat = readStart(`/proc/${pid}/stat`);
    // The second field is the program's name in brackets, and may contain anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return {
      pid,
      state: fields[0] ?? "",
      parent: Number(fields[1]),
      group: Number(fields[2]),
      session: Number(fields[3]),
      threads: Number(fields[17]),
      startTime: fields[19] ?? "",
    };
  } catch {
    return undefined;
  }
}

/** A main thread that has ended looks like a zombie while the other threads of its process work on. */
export function isLiving({ state, threads }: Process): boolean {
  return (state !== "Z" && state !== "X") || threads > 1;
}

/** When a process started, in the kernel's own unit. `undefined`: no such process, or no `/proc`. */
export function startTimeOf(pid: number): string | undefined {
  return process.platform === "linux" ? readProcess(pid)?.startTime : undefined;
}

/** False when there is no such process. */
export function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The number that was given away last. */
function newestPid(): number {
  return Number(readFileSync("/proc/loadavg", "latin1").trimEnd().split(" ").at(-1));
}

/** What fits into one read: this file is shorter, and readFileSync() takes five system calls where three do. */
function readStart(path: string): string {
  const fd = openSync(path, "r");
  try {
    return STAT.toString("latin1", 0, readSync(fd, STAT));
  } finally {
    closeSync(fd);
  }
}
