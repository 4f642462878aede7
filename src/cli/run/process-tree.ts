/**
 * The command and everything it started. Its processes are found by their group and, on Linux, by their session, their
 * control group, their parents, and marks that they inherit. Imports nothing heavy: the warden uses it.
 */
import { cgroupPids, killCgroup } from "./cgroup.ts";
import { bearsLimit, environmentSays, type Marks } from "./process-marks.ts";
import { everyProcess, isLiving, type Process, readProcess, send, startTimeOf } from "./processes.ts";

export interface Family extends Marks {
  /** The command's own process. */
  readonly pid: number;
  /** When it started, by the kernel, so a reused pid is not taken for it. Absent where the kernel does not say. */
  readonly startTime: string | undefined;
  /** True: `pid` leads a group and a session of its own. False: it shares those of holdfast, at a terminal. */
  readonly leads: boolean;
  /** The session that it was started in. */
  readonly session: number;
  /** The control group that was made for it. Absent where none can be made. */
  readonly cgroup: string | undefined;
}

const LOOK_AGAIN_MAX_MS = 100;
/** Where processes come and go all the time no listing is complete: then so many empty ones in a row are enough. */
const LOOKS_MAX = 10;
const NONE: ReadonlySet<number> = new Set();

/** Sends `signal` to the whole group, or to the command alone where it has no group of its own. */
export function signalFamily(family: Family, signal: NodeJS.Signals): void {
  if (!isStill(family)) return;
  send(family.leads ? -family.pid : family.pid, signal);
}

/** Sends `signal` to every living process of the family. */
export function signalMembers(family: Family, signal: NodeJS.Signals): void {
  signalFamily(family, signal);
  look(family, (one) => {
    if (one.pid !== family.pid && !(family.leads && one.group === family.pid)) send(one.pid, signal);
  });
}

/**
 * Kills every process of the family, and resolves when none is left: also those that start meanwhile. None is left
 * when two listings in a row find none, and no process that might have forked has vanished in between. Those of another
 * user cannot be killed, and do not count.
 */
export async function endFamily(family: Family): Promise<void> {
  signalFamily(family, "SIGKILL");
  await commandGone(family);
  let calm = 0;
  let empty = 0;
  for (let pauseMs = 1; calm < 2 && empty < LOOKS_MAX; pauseMs = Math.min(pauseMs * 2, LOOK_AGAIN_MAX_MS)) {
    let ended = 0;
    const { complete, cleared } = look(family, (one) => (ended += end(family, one) ? 1 : 0));
    if (family.cgroup !== undefined) killCgroup(family.cgroup, (pid) => cleared.has(pid));
    empty = ended === 0 ? empty + 1 : 0;
    calm = ended === 0 && complete ? calm + 1 : 0;
    // One that is just being loaded cannot be read: it gets the time for that.
    await sleep(ended === 0 && complete ? 1 : pauseMs);
  }
}

/** True while something lives that the command left in its session. A daemon, in a session of its own, does not count. */
export function leftovers(family: Family): boolean {
  if (process.platform !== "linux") return send(family.leads ? -family.pid : family.pid, 0);
  let left = false;
  everyProcess((one) => {
    left ||= one.session === family.session && relationOf(family, one, NONE, undefined) === "member";
  });
  return left;
}

/** Checking one process is cheap, checking all is not: mostly the others have ended when the command has. */
async function commandGone({ pid, startTime }: Family): Promise<void> {
  if (process.platform !== "linux") return;
  for (let round = 0; round < 20; round++) {
    const one = readProcess(pid);
    if (one === undefined || one.startTime !== startTime || !isLiving(one)) return;
    await sleep(1);
  }
}

/**
 * A session that the family made has no other members: its groups are ended in one step, which no fork escapes.
 * False: it is another user's, and goes on.
 */
function end(family: Family, { pid, group, session }: Process): boolean {
  if (group > 1 && (family.leads || session !== family.session)) send(-group, "SIGKILL");
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "EPERM";
  }
}

interface Seen {
  /** False: some ended before they could be read, and may have left children. */
  readonly complete: boolean;
  /** Those that shall survive. */
  readonly cleared: ReadonlySet<number>;
}

/** Calls `act` for each living member as soon as it is seen: one that forks and exits does not wait for the end of a list. */
function look(family: Family, act: (one: Process) => void): Seen {
  const cleared = new Set<number>();
  if (process.platform !== "linux") {
    const { pid, leads, session } = family;
    if (send(leads ? -pid : pid, 0))
      act({ pid, parent: 0, state: "R", threads: 1, group: pid, session, startTime: "" });
    return { complete: true, cleared };
  }
  const inside = new Set(family.cgroup === undefined ? [] : cgroupPids(family.cgroup));
  const relations = new Map<number, Relation>();
  let readAll = true;
  const sawAll = everyProcess((one) => {
    const relation = relationOf(family, one, inside, relations.get(one.parent));
    relations.set(one.pid, relation);
    if (relation === "member") act(one);
    else if (relation === "cleared") cleared.add(one.pid);
    else if (relation === "gone") readAll = false;
  });
  return { complete: sawAll && readAll, cleared };
}

/** `cleared`: one of the family that shall survive it, or a child of such a one. */
type Relation = "member" | "cleared" | "stranger" | "gone";

function relationOf(family: Family, one: Process, inside: ReadonlySet<number>, parent: Relation | undefined): Relation {
  if (one.pid === family.pid) return one.startTime === family.startTime ? "member" : "stranger";
  // No process is older than the command that it descends from: this saves reading most environments.
  if (Number(one.startTime) < Number(family.startTime)) return "stranger";
  if (family.leads && one.session === family.pid && isStill(family)) return "member";
  const said = environmentSays(one.pid, family);
  if (said === "marked") return "member";
  if (said === "gone") return said;
  // A process that is meant to survive leaves the session: all that stay in it belong to the command, whatever their environment is.
  if (said === "cleared" && one.session !== family.session) return said;
  if (parent === "member" || parent === "cleared") return parent;
  if (inside.has(one.pid)) return "member";
  const bears = bearsLimit(one.pid, family);
  if (bears === undefined) return "gone";
  return bears ? "member" : "stranger";
}

/** False when the pid now belongs to another process. While a group has members, its number is not given away. */
function isStill(family: Family): boolean {
  const now = startTimeOf(family.pid);
  return now === undefined || family.startTime === undefined || now === family.startTime;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
