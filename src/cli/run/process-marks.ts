/**
 * The marks by which a command's descendants are known, whatever they do to leave it. One stands in their environment,
 * where people can see it and clear it on purpose; one in a limit that the kernel hands down and nothing else uses.
 */
import { readdirSync, readFileSync } from "node:fs";

/** Every descendant inherits this variable; it holds the marks of all runs that a process is part of. */
export const MARK_VARIABLE = "HOLDFAST_RUN";
/**
 * Also inherited, and never passed on on purpose: shows that an environment is the inherited one, and only the mark was
 * taken out of it. Its values are made from the marks, and do not contain them.
 */
const WITNESS_VARIABLE = "HOLDFAST_RUN_WITNESS";

export interface Marks {
  /** In {@link MARK_VARIABLE}. */
  readonly mark: string;
  /** The soft limit on file locks, which Linux keeps, inherits and, since 2.4, never enforces. */
  readonly limit: string;
  /** In {@link WITNESS_VARIABLE}. */
  readonly witness: string;
}

/** The variables of a command that bears this mark, and those of the runs around it. */
export function markVariables(
  env: Readonly<Record<string, string | undefined>>,
  { mark, witness }: Marks,
): Record<string, string> {
  const added = (name: string, value: string): string => (env[name] === undefined ? value : `${env[name]}:${value}`);
  return {
    [MARK_VARIABLE]: added(MARK_VARIABLE, mark),
    [WITNESS_VARIABLE]: added(WITNESS_VARIABLE, witness),
  };
}

/** What makes a shell, and all that it becomes and starts, bear the limit. Shells call it -x or -w. */
export function limitScript({ limit }: Marks): string {
  return `{ ulimit -S -x ${limit} || ulimit -S -w ${limit}; } 2>/dev/null`;
}

/**
 * `marked`: it bears the mark. `cleared`: it had it, and it was taken away on purpose, as with `env -u HOLDFAST_RUN`.
 * `unknown`: its environment says nothing, for instance because a title has been written over it. `gone`: it has ended.
 */
export function environmentSays(pid: number, { mark, witness }: Marks): "marked" | "cleared" | "unknown" | "gone" {
  const environment = readOf(pid, "environ") ?? ofOtherThreads(pid);
  if (environment === undefined) return "gone";
  // At any place: no other process knows it, and a title may have been written over the variable's name.
  if (environment.includes(mark)) return "marked";
  const entries = environment.replace(/\0$/, "").split("\0");
  const whole = entries.every((entry) => entry.indexOf("=") > 0);
  const witnesses = entries.filter((entry) => entry.startsWith(`${WITNESS_VARIABLE}=`));
  return whole && witnesses.some((entry) => entry.includes(witness)) ? "cleared" : "unknown";
}

/** `undefined`: it has ended. */
export function bearsLimit(pid: number, { limit }: Marks): boolean | undefined {
  const limits = readOf(pid, "limits");
  return limits === undefined ? undefined : new RegExp(`^Max file locks +${limit} `, "m").test(limits);
}

/** A main thread that has ended has no environment any more; the other threads of its process have. */
function ofOtherThreads(pid: number): string | undefined {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const environment = readOf(pid, `task/${thread}/environ`);
      if (environment !== undefined) return environment;
    }
  } catch {
    // All of it has ended.
  }
  return undefined;
}

/** Empty where we may not look: another user's. `undefined`: there is no such process any more. */
function readOf(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" || code === "ESRCH" ? undefined : "";
  }
}
