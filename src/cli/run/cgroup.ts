/**
 * A control group for one command, where the kernel lets us make one (cgroup v2, delegated to this user or to root). What
 * the command starts is in it whatever it does, and can be ended in one step that no fork escapes.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const PREFIX = "holdfast-";
/** A group this old without a process belongs to a run that was killed together with its warden. */
const FORGOTTEN_MS = 60_000;

/** Makes a group inside our own. `undefined`: not here. */
export function makeCgroup(name: string): string | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const own = ownCgroup();
    if (own === undefined) return undefined;
    removeForgotten(own);
    const dir = join(own, `${PREFIX}${name}`);
    mkdirSync(dir);
    return dir;
  } catch {
    return undefined;
  }
}

/** What makes a shell, and all that it becomes and starts, part of the group. */
export function joinScript(dir: string): string {
  return `{ echo 0 > '${join(dir, "cgroup.procs").replaceAll("'", "'\\''")}'; } 2>/dev/null`;
}

/** All processes in it and below. */
export function cgroupPids(dir: string): readonly number[] {
  return groupsIn(dir).flatMap((group) => pidsIn(group));
}

/** Ends all that are in it, except those that `spares` names: they leave it. */
export function killCgroup(dir: string, spares: (pid: number) => boolean): void {
  const pids = cgroupPids(dir);
  const left = pids.filter((pid) => spares(pid) && !moveUp(dir, pid));
  try {
    if (left.length > 0) throw new Error("a process in it is meant to survive");
    writeFileSync(join(dir, "cgroup.kill"), "1");
  } catch {
    // Before Linux 5.14: one by one. The caller checks again.
    for (const pid of pids) if (!spares(pid)) kill(pid);
  }
}

/** Gives it up. What still lives in it, such as a daemon that may, goes on in the group around it. */
export function removeCgroup(dir: string): void {
  for (const pid of cgroupPids(dir)) moveUp(dir, pid);
  for (const group of groupsIn(dir).toReversed()) removeEmpty(group);
}

/** Where this process is, in a mounted cgroup v2. */
function ownCgroup(): string | undefined {
  const path = /^0::(\/.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  if (path === undefined || path.includes("/..")) return undefined;
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const [mounted, kind] = line.split(" - ");
    if (!kind?.startsWith("cgroup2 ")) continue;
    const [, , , root = "", mount = ""] = mounted?.split(" ") ?? [];
    if (root === "/") return join(unescape(mount), path);
    if (`${path}/`.startsWith(`${root}/`)) return join(unescape(mount), path.slice(root.length));
  }
  return undefined;
}

/** Blanks in a path of mountinfo are octal. */
function unescape(path: string): string {
  return path.replace(/\\(\d{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
}

/** Outer ones first. */
function groupsIn(dir: string): readonly string[] {
  try {
    const inner = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return [dir, ...inner.flatMap(({ name }) => groupsIn(join(dir, name)))];
  } catch {
    return [];
  }
}

function pidsIn(group: string): readonly number[] {
  try {
    // A process of another pid namespace is listed as 0.
    return readFileSync(join(group, "cgroup.procs"), "latin1").split("\n").map(Number).filter(Boolean);
  } catch {
    return [];
  }
}

function moveUp(dir: string, pid: number): boolean {
  try {
    writeFileSync(join(dirname(dir), "cgroup.procs"), String(pid));
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone meanwhile.
  }
}

function removeForgotten(own: string): void {
  for (const name of readdirSync(own)) {
    const group = join(own, name);
    if (name.startsWith(PREFIX) && Date.now() - statSync(group).ctimeMs > FORGOTTEN_MS) removeEmpty(group);
  }
}

/** The kernel refuses to remove a group that has processes. */
function removeEmpty(group: string): void {
  try {
    rmdirSync(group);
  } catch {
    // In use, or gone.
  }
}
