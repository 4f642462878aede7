/**
 * The identity of a process, by which others see whether it still runs: boot id, pid, start time and pid namespace.
 * A pid alone is not enough, because it is used again. A process of another boot or namespace cannot be seen from here,
 * so it is never declared dead: its leases end when their time is over.
 *
 * A /proc can belong to another pid namespace than the process that reads it (`unshare --pid` without a mount of its own,
 * a container that was given the host's). Then /proc/<pid> is another process, and nothing in it is believed.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { codeOf } from "./disk.ts";

export interface ProcessIdentity {
  /** The kernel's id of this boot; leases of another boot are timed by the wall clock. */
  readonly boot: string;
  /** Empty where the system has namespaces but does not say which is ours. Then no process can be seen from anywhere. */
  readonly pidNamespace: string;
  /** A time namespace shifts the monotonic clock, so instants of another one cannot be compared. */
  readonly timeNamespace: string;
  /** 0: bound to no process. */
  readonly pid: number;
  /** In clock ticks after the boot. Empty where the system does not say. */
  readonly start: string;
}

const RAN_MAX = 1000;
/** When processes were last seen running, by pid and start time. */
const lastRanMs = new Map<string, number>();

let identity: ProcessIdentity | undefined;
let trustsProc: boolean | undefined;

/** This process, as others will see it. */
export function thisProcess(): ProcessIdentity {
  identity ??= {
    boot: bootId(),
    pidNamespace: namespaceOf("pid"),
    timeNamespace: namespaceOf("time"),
    pid: process.pid,
    // Not by our pid: a /proc of another namespace has another process under it.
    start: orUnknown(() => statOf("self"))?.start ?? "",
  };
  return identity;
}

/** True where instants of its monotonic clock can be compared with ours. */
export function sharesClock({ boot, timeNamespace }: ProcessIdentity): boolean {
  const me = thisProcess();
  return boot !== "" && boot === me.boot && timeNamespace === me.timeNamespace;
}

/** True where its pid means the same process here, so we can see whether it runs. */
export function sharesProcessIds({ boot, pidNamespace }: ProcessIdentity): boolean {
  const me = thisProcess();
  return boot === me.boot && pidNamespace !== "" && pidNamespace === me.pidNamespace;
}

/** True where /proc is that of our own pid namespace: it shows when a pid was used again, and which process is a zombie. */
export function seesProcesses(): boolean {
  try {
    trustsProc ??= isOwnProc();
  } catch {
    // It is looked at again next time.
    return false;
  }
  return trustsProc;
}

/**
 * True only when the process has certainly ended. One that ran `freshMs` ago or less is not checked again: the check costs more
 * than most of what is done to a lock, and a death that is seen a little later only delays the next holder a little.
 */
export function isDead(who: ProcessIdentity, freshMs = 2): boolean {
  const { pid } = who;
  if (pid <= 0 || !sharesProcessIds(who)) return false;
  const start = comparableStart(who, who.start);
  if (pid === process.pid && (start === "" || start === thisProcess().start)) return false;
  const key = `${pid} ${start}`;
  const nowMs = performance.now();
  if (nowMs - (lastRanMs.get(key) ?? -Infinity) <= freshMs) return false;
  if (!isRunning(pid, start)) return true;
  if (lastRanMs.size >= RAN_MAX) lastRanMs.clear();
  lastRanMs.set(key, nowMs);
  return false;
}

/** A start time that this process wrote down. Empty where it cannot be compared: time namespaces shift it. */
export function comparableStart({ timeNamespace }: ProcessIdentity, start: string): string {
  return timeNamespace === thisProcess().timeNamespace ? start : "";
}

/** True unless there is certainly no such process, or it is another one with the same pid. */
export function isRunning(pid: number, start: string): boolean {
  const stat = seesProcesses() ? readStat(String(pid)) : undefined;
  if (stat !== undefined) return !stat.zombie && (start === "" || stat.start === start);
  // No /proc, one of another namespace, or one that hides other users' processes: only "no such process" is certain,
  // which the kernel answers for our own namespace, whatever is mounted.
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** The start time of a process. Empty where the system does not say. */
export function startOf(pid: number): string {
  return seesProcesses() ? (readStat(String(pid))?.start ?? "") : "";
}

interface ProcessStat {
  readonly zombie: boolean;
  readonly start: string;
}

function readStat(pid: string): ProcessStat | undefined {
  try {
    return statOf(pid);
  } catch {
    return undefined;
  }
}

/** What /proc says about that process. In a /proc of another namespace, only "self" is right. Throws if it cannot be read. */
function statOf(pid: string): ProcessStat | undefined {
  if (process.platform !== "linux") return undefined;
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  // The name in brackets may contain anything, also brackets. The fields from the state on follow the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state] = fields;
  const threads = Number(fields[17]);
  // A main thread that ended while others run looks like a zombie too, but the others are counted.
  return { zombie: (state === "Z" || state === "X") && !(threads > 1), start: fields[19] ?? "" };
}

function isOwnProc(): boolean {
  if (process.platform !== "linux") return false;
  const own = orUnknown(() => {
    // Our pids from the namespace of this /proc down to our own: just one if they are the same.
    const pids = /^NSpid:(.*)$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1]?.trim();
    return pids ?? readlinkSync("/proc/self");
  });
  return own === String(process.pid);
}

/** Without a boot id, ends are judged by the wall clock. */
function bootId(): string {
  const read = (): string => {
    if (process.platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8");
    if (process.platform !== "darwin") return "";
    return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" });
  };
  return orUnknown(read)?.trim() ?? "";
}

/**
 * What the system says. `undefined`: it does not. Throws where this process only has no open file left to read it with: the answer is
 * remembered for good, and a wrong one would let others judge its leases by the wall clock.
 */
function orUnknown<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (["EMFILE", "ENFILE"].includes(codeOf(error))) throw error;
    return undefined;
  }
}

function namespaceOf(kind: "pid" | "time"): string {
  try {
    return readlinkSync(`/proc/self/ns/${kind}`);
  } catch {
    // No namespaces here; but pids of another machine mean nothing to us.
    return process.platform === "linux" ? "" : hostname();
  }
}
