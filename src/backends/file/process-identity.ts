/**
 * Who a process is, so that another can tell whether it still lives: boot id, pid, start time and pid namespace.
 * A pid alone is not enough (it is used again), and a process of another boot or namespace cannot be seen from here,
 * so that it is never declared dead: its leases end when their time is over.
 *
 * A /proc can belong to another pid namespace than the process that reads it (`unshare --pid` without a mount of its own,
 * a container that was given the host's): then /proc/<pid> is somebody else, and nothing that stands there is believed.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface Life {
  /** The kernel's id of this boot; leases of another boot are timed by the wall clock. */
  readonly boot: string;
  /** Empty where the system has namespaces but does not tell which is ours: then nobody can be seen from anywhere. */
  readonly pidNamespace: string;
  /** A time namespace shifts the monotonic clock, so that instants of another one cannot be compared. */
  readonly timeNamespace: string;
  /** 0: bound to no process. */
  readonly pid: number;
  /** In clock ticks after the boot; empty where the system does not tell. */
  readonly start: string;
}

const RAN_MAX = 1000;
/** When processes were last seen running, by pid and start time. */
const lastRanMs = new Map<string, number>();

let own: Life | undefined;
let trustsProc: boolean | undefined;

/** This process, as others will see it. */
export function ownLife(): Life {
  own ??= {
    boot: bootId(),
    pidNamespace: namespaceOf("pid"),
    timeNamespace: namespaceOf("time"),
    pid: process.pid,
    // Not by our pid, under which another /proc knows somebody else.
    start: look("self")?.start ?? "",
  };
  return own;
}

/** True where instants of that process's monotonic clock can be compared with ours. */
export function sharesClock({ boot, timeNamespace }: Life): boolean {
  const me = ownLife();
  return boot !== "" && boot === me.boot && timeNamespace === me.timeNamespace;
}

/** True where processes of its surroundings are visible from here while they live. */
export function isNeighbour({ boot, pidNamespace }: Life): boolean {
  const me = ownLife();
  return boot === me.boot && pidNamespace !== "" && pidNamespace === me.pidNamespace;
}

/** True where /proc is that of our own pid namespace, so that it tells when a pid was used again, and who is a zombie. */
export function seesProcesses(): boolean {
  trustsProc ??= isOwnProc();
  return trustsProc;
}

/**
 * True only when the process has surely ended. One that ran `freshMs` ago or less is not looked at again: a look costs more
 * than most of what is done to a lock, and whoever is found dead a little later is only replaced a little later.
 */
export function isDead(life: Life, freshMs = 2): boolean {
  const { pid } = life;
  if (pid <= 0 || !isNeighbour(life)) return false;
  const start = comparableStart(life, life.start);
  if (pid === process.pid && (start === "" || start === ownLife().start)) return false;
  const who = `${pid} ${start}`;
  const nowMs = performance.now();
  if (nowMs - (lastRanMs.get(who) ?? -Infinity) <= freshMs) return false;
  if (!isRunning(pid, start)) return true;
  if (lastRanMs.size >= RAN_MAX) lastRanMs.clear();
  lastRanMs.set(who, nowMs);
  return false;
}

/** A start time that somebody with that life wrote down; empty where it cannot be compared: time namespaces shift it. */
export function comparableStart({ timeNamespace }: Life, start: string): string {
  return timeNamespace === ownLife().timeNamespace ? start : "";
}

/** True unless there is surely no such process, or it is another one with the same pid. */
export function isRunning(pid: number, start: string): boolean {
  const seen = seesProcesses() ? look(String(pid)) : undefined;
  if (seen !== undefined) return !seen.zombie && (start === "" || seen.start === start);
  // No /proc, one of another namespace, or one that hides other users' processes: only "no such process" is certain,
  // which the kernel answers for our own namespace, whatever is mounted.
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** The start time of a process; empty where the system does not tell. */
export function startOf(pid: number): string {
  return seesProcesses() ? (look(String(pid))?.start ?? "") : "";
}

interface Seen {
  readonly zombie: boolean;
  readonly start: string;
}

/** What /proc says about that process. Where it is another namespace's, only "self" is who it seems to be. */
function look(pid: string): Seen | undefined {
  if (process.platform !== "linux") return undefined;
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The name in brackets may contain anything, brackets too; after the last one come the fields from the state on.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state] = fields;
  const threads = Number(fields[17]);
  // A main thread that ended while others run looks like a zombie too, but has them counted.
  return { zombie: (state === "Z" || state === "X") && !(threads > 1), start: fields[19] ?? "" };
}

function isOwnProc(): boolean {
  if (process.platform !== "linux") return false;
  const pid = String(process.pid);
  try {
    // Our pids from the namespace of this /proc down to our own: just one if they are the same.
    const pids = /^NSpid:(.*)$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1]?.trim();
    return (pids ?? readlinkSync("/proc/self")) === pid;
  } catch {
    return false;
  }
}

function bootId(): string {
  try {
    if (process.platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    if (process.platform === "darwin") {
      return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim();
    }
  } catch {
    // Falls through: without a boot id, ends are told by the wall clock.
  }
  return "";
}

function namespaceOf(kind: "pid" | "time"): string {
  try {
    return readlinkSync(`/proc/self/ns/${kind}`);
  } catch {
    // No namespaces here; but pids of another machine mean nothing to us.
    return process.platform === "linux" ? "" : hostname();
  }
}
