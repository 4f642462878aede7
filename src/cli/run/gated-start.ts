/**
 * Starts a command behind a gate: the process exists, but runs nothing of the command until the gate is opened. In between
 * its pid is written wherever it must stand before the work begins. If holdfast dies first, the gate never opens.
 *
 * The gate is `sh`, which puts the family's marks on itself, waits for a line on a pipe and then becomes the command. It
 * interprets nothing: the command is passed as its arguments.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Writable } from "node:stream";

import { joinScript, makeCgroup, removeCgroup } from "./cgroup.ts";
import type { Family } from "./process-tree.ts";
import { newMarks } from "./new-marks.ts";
import { limitScript, markVariables } from "./process-marks.ts";
import { readProcess, startTimeOf } from "./processes.ts";

const GATE_FD = 3;
/** Without its newline the line is not an opening: holdfast was killed while it wrote. */
const WAIT = `read -r _holdfast_gate <&${GATE_FD} || exit 70; exec ${GATE_FD}<&-; unset _holdfast_gate`;
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** A shell drops variables whose names it could not use itself. They travel under names like this one, each as NAME=VALUE. */
const PARCEL = "_HOLDFAST_PARCEL_";
const PERL = "/usr/bin/perl";
/** Gives the parcels their names back. Unlike env(1) it needs no arguments for that, which every user of the machine could read. */
const UNPACK = `for (grep { /^${PARCEL}\\d+$/ } keys %ENV) { my ($n, $v) = split /=/, delete $ENV{$_}, 2; $ENV{$n} = $v } exec { $ARGV[0] } @ARGV; exit 126`;

export interface GatedOptions {
  /** An absolute path, so that nothing is taken for an option. */
  readonly path: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True: in a session of its own, away from the terminal. False: in our own group, so that Ctrl-C reaches it. */
  readonly ownGroup: boolean;
  /** False: without a control group, as where none can be made. @default true */
  readonly cgroup?: boolean | undefined;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Gated {
  readonly family: Family;
  /** Resolves when the command's own process has ended. */
  readonly ended: Promise<Ended>;
  open(): void;
}

/** Rejects when the system cannot start another process. */
export async function startGated({ path, args, env, ownGroup, cgroup = true }: GatedOptions): Promise<Gated> {
  const marks = newMarks();
  const marked = { ...env, ...markVariables(env, marks) };
  const { kept, parcels } = packed(marked);
  const group = cgroup ? makeCgroup(marks.mark) : undefined;
  const script = [
    ...(process.platform === "linux" ? [limitScript(marks)] : []),
    ...(group === undefined ? [] : [joinScript(group)]),
    WAIT,
    ...(env["PWD"] === undefined ? ["unset PWD"] : []),
    execScript(parcels),
  ].join("; ");
  const child = spawn("/bin/sh", ["-c", script, "holdfast", path, ...args], {
    env: kept,
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    detached: ownGroup,
  });
  const ended = new Promise<Ended>((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
  let pid: number;
  try {
    pid = await started(child);
  } catch (error) {
    if (group !== undefined) removeCgroup(group);
    throw error;
  }
  const gate = child.stdio[GATE_FD] as Writable;
  // The command may be killed before it reads; its exit reports that.
  gate.on("error", () => {});
  const session = ownGroup ? pid : (readProcess(process.pid)?.session ?? 0);
  return {
    family: { ...marks, pid, startTime: startTimeOf(pid), leads: ownGroup, session, cgroup: group },
    ended,
    open: () => void gate.end("go\n"),
  };
}

function started(child: ChildProcess): Promise<number> {
  const { pid } = child;
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    if (pid !== undefined) resolve(pid);
  });
}

/** Values stay in the environment, which only their user can read: never in arguments while the gate waits. */
function packed(env: GatedOptions["env"]): { kept: Record<string, string>; parcels: readonly string[] } {
  const kept: Record<string, string> = {};
  const parcels: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || name.startsWith(PARCEL)) continue;
    if (IDENTIFIER.test(name)) {
      kept[name] = value;
    } else {
      const parcel = `${PARCEL}${parcels.length}`;
      kept[parcel] = `${name}=${value}`;
      parcels.push(parcel);
    }
  }
  return { kept, parcels };
}

/** The last step: the shell becomes the command. Without perl, env(1) shows what is in the parcels for as long as its own exec takes. */
function execScript(parcels: readonly string[]): string {
  if (parcels.length === 0) return 'exec "$@"';
  if (existsSync(PERL)) return `exec ${PERL} -e '${UNPACK}' "$@"`;
  const values = parcels.map((parcel) => `"$${parcel}"`).join(" ");
  return `set -- ${values} "$@"; unset ${parcels.join(" ")}; exec /usr/bin/env "$@"`;
}
