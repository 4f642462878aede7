/**
 * The command and everything it started. Its processes are found by their process group and, on Linux, also by their
 * session and by a mark in their environment, so that a grandchild that left the group is found too. Imports nothing
 * heavy: the warden uses it.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";

/** Every descendant inherits this variable; it holds the marks of all runs that a process is part of. */
export const MARK_VARIABLE = "HOLDFAST_RUN";

export interface Family {
  /** The command's own process. */
  readonly pid: number;
  /** When it started, as the kernel tells, so that a reused pid is not taken for it. Absent where the kernel tells nothing. */
  readonly startTime: string | undefined;
  /** True: `pid` leads a group and a session of its own. False: it shares those of holdfast, at a terminal. */
  readonly leads: boolean;
  readonly mark: string;
}

interface Process {
  readonly pid: number;
  readonly state: string;
  readonly group: number;
  readonly session: number;
  readonly startTime: string;
}

const LOOK_AGAIN_MAX_MS = 100;
const STAT = Buffer.alloc(4096);

/** Sends `signal` to the whole group, or to the command alone where it has no group of its own. */
export function signalFamily(family: Family, signal: NodeJS.Signals): void {
  if (!isStill(family)) return;
  send(family.leads ? -family.pid : family.pid, signal);
}

/** Sends `signal` to every living process of the family. */
export function signalMembers(family: Family, signal: NodeJS.Signals): void {
  signalFamily(family, signal);
  const already = (process_: Process): boolean => family.leads && process_.group === family.pid;
  for (const member of members(family)) {
    if (!already(member) && member.pid !== family.pid) send(member.pid, signal);
  }
}

/** Kills every process of the family, and resolves when none is left: also those that are born meanwhile. */
export async function endFamily(family: Family): Promise<void> {
  signalFamily(family, "SIGKILL");
  await commandGone(family);
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, LOOK_AGAIN_MAX_MS)) {
    const left = members(family);
    if (left.length === 0) return;
    for (const member of left) send(member.pid, "SIGKILL");
    await sleep(pauseMs);
  }
}

/** To look at one process is cheap, to look at all is not: mostly the others are gone when the command is. */
async function commandGone({ pid, startTime }: Family): Promise<void> {
  if (process.platform !== "linux") return;
  for (let round = 0; round < 20; round++) {
    const one = read(pid);
    if (one === undefined || one.startTime !== startTime || !living(one)) return;
    await sleep(1);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** True while something lives that the command left in its session. A daemon, in a session of its own, does not count. */
export function leftovers(family: Family): boolean {
  if (process.platform !== "linux") return send(family.leads ? -family.pid : family.pid, 0);
  const ours = family.leads ? family.pid : read(process.pid)?.session;
  return processes().some((one) => living(one) && one.session === ours && belongs(family, one));
}

/** When a process started, in the kernel's own unit. `undefined`: no such process, or no `/proc`. */
export function startTimeOf(pid: number): string | undefined {
  return process.platform === "linux" ? read(pid)?.startTime : undefined;
}

function members(family: Family): readonly Process[] {
  if (process.platform === "linux") {
    return processes().filter((one) => living(one) && belongs(family, one));
  }
  const alive = send(family.leads ? -family.pid : family.pid, 0);
  return alive ? [{ pid: family.pid, state: "R", group: family.pid, session: 0, startTime: "" }] : [];
}

function belongs(family: Family, one: Process): boolean {
  if (one.pid === family.pid) return one.startTime === family.startTime;
  // Nobody is older than the command that it descends from: saves reading nearly everybody's environment.
  if (Number(one.startTime) < Number(family.startTime)) return false;
  if (family.leads && one.session === family.pid && isStill(family)) return true;
  return isMarked(one.pid, family.mark);
}

/** False when the pid now belongs to somebody else. While a group has members, its number is not given away. */
function isStill(family: Family): boolean {
  const now = startTimeOf(family.pid);
  return now === undefined || family.startTime === undefined || now === family.startTime;
}

function living(one: Process): boolean {
  return one.state !== "Z" && one.state !== "X";
}

function isMarked(pid: number, mark: string): boolean {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
    const at = environment.indexOf(`${MARK_VARIABLE}=`);
    return at >= 0 && environment.slice(at, endOf(environment, at)).includes(mark);
  } catch {
    // Gone meanwhile, or another user's.
    return false;
  }
}

function endOf(environment: string, at: number): number {
  const end = environment.indexOf("\0", at);
  return end < 0 ? environment.length : end;
}

function processes(): readonly Process[] {
  const found: Process[] = [];
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    const one = Number.isInteger(pid) ? read(pid) : undefined;
    if (one !== undefined) found.push(one);
  }
  return found;
}

function read(pid: number): Process | undefined {
  try {
    const stat = readStart(`/proc/${pid}/stat`);
    // The second field is the program's name in brackets, and may contain anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return {
      pid,
      state: fields[0] ?? "",
      group: Number(fields[2]),
      session: Number(fields[3]),
      startTime: fields[19] ?? "",
    };
  } catch {
    return undefined;
  }
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

/** False when nobody is there to get it. */
function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
