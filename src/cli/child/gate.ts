/**
 * Starts a command behind a gate: the process exists, but runs nothing of the command until the gate is opened. In between
 * its pid is written wherever it must stand before the work begins. If holdfast dies first, the gate never opens.
 *
 * The gate is `sh`, which waits for a line on a pipe and then becomes the command. It interprets nothing: the command is
 * passed as its arguments.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Writable } from "node:stream";

import { type Family, MARK_VARIABLE, startTimeOf } from "./family.ts";

const GATE_FD = 3;
/** Without its newline the line is not an opening: holdfast was killed while it wrote. */
const SCRIPT = `read -r _holdfast_gate <&${GATE_FD} || exit 70; exec ${GATE_FD}<&-; unset _holdfast_gate`;
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface GatedOptions {
  /** An absolute path, so that nothing is taken for an option. */
  readonly path: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True: in a session of its own, away from the terminal. False: in our own group, so that Ctrl-C reaches it. */
  readonly ownGroup: boolean;
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
export async function startGated({ path, args, env, ownGroup }: GatedOptions): Promise<Gated> {
  const mark = randomBytes(12).toString("base64url");
  const outer = env[MARK_VARIABLE];
  const marked = { ...env, [MARK_VARIABLE]: outer === undefined ? mark : `${outer}:${mark}` };
  const { kept, strange } = partition(marked);
  const script = `${SCRIPT}${env["PWD"] === undefined ? "; unset PWD" : ""}; exec "$@"`;
  // A shell drops variables whose names it could not use itself, so env(1) hands those over.
  const command =
    strange.length === 0 || path.includes("=") ? [path, ...args] : ["/usr/bin/env", ...strange, path, ...args];
  const child = spawn("/bin/sh", ["-c", script, "holdfast", ...command], {
    env: kept,
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    detached: ownGroup,
  });
  const ended = new Promise<Ended>((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
  const pid = await started(child);
  const gate = child.stdio[GATE_FD] as Writable;
  // The command may be killed before it reads; its exit tells.
  gate.on("error", () => {});
  return {
    family: { pid, startTime: startTimeOf(pid), leads: ownGroup, mark },
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

function partition(env: GatedOptions["env"]): { kept: Record<string, string>; strange: string[] } {
  const kept: Record<string, string> = {};
  const strange: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) continue;
    if (IDENTIFIER.test(name)) kept[name] = value;
    else strange.push(`${name}=${value}`);
  }
  return { kept, strange };
}
