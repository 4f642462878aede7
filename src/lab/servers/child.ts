/** One server process: started, watched until it is ready, signalled by pid, and never outliving this process. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";

export interface ChildOptions {
  readonly args: readonly string[];
  readonly cwd: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The server is ready when its output matches. */
  readonly ready: RegExp;
  /** Run as this user (needs root). */
  readonly user?: string | undefined;
  /** How the server is asked to stop at once. @default "SIGKILL" */
  readonly stopSignal?: NodeJS.Signals | undefined;
  /** @default 30 s */
  readonly startMs?: number | undefined;
}

export interface Child {
  readonly pid: number;
  /** What the process printed, its last 64 KiB. */
  output(): string;
  isAlive(): boolean;
  /** Resolves when the process has ended, however. */
  readonly ended: Promise<void>;
  pause(): void;
  resume(): void;
  /** Sends the signal, wakes a paused process so it can act on it, and waits for the end. */
  end(signal?: NodeJS.Signals): Promise<void>;
}

/** Thrown when the port was taken between looking for it and using it: try again with another. */
export class PortTakenError extends Error {}

const SETPRIV = "/usr/bin/setpriv";
const OUTPUT_LIMIT = 65_536;
const living = new Map<ChildProcess, NodeJS.Signals>();
let watchesExit = false;

/** Starts `program` and resolves when it is ready. Rejects with its output if it ends first. */
export async function startChild(program: string, options: ChildOptions): Promise<Child> {
  const stopSignal = options.stopSignal ?? "SIGKILL";
  const [file, args] = tie(program, options, stopSignal);
  const env = { ...process.env, ...options.env };
  const child = spawn(file, args, { cwd: options.cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  track(child, stopSignal);
  await new Promise<void>((resolve, reject) => {
    const fail = (why: string): void => {
      child.kill("SIGKILL");
      const Failure = /address already in use/iu.test(output) ? PortTakenError : Error;
      reject(new Failure(`${program} ${why}:\n${output}`));
    };
    const timer = setTimeout(() => fail("was not ready in time"), options.startMs ?? 30_000);
    const hear = (data: Buffer): void => {
      output = (output + data.toString()).slice(-OUTPUT_LIMIT);
      if (options.ready.test(output)) {
        clearTimeout(timer);
        resolve();
      }
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("error", (error) => fail(`did not start (${error.message})`));
    // "close" comes after the last output, which holds the reason.
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      fail(`ended at its start (${signal ?? code})`);
    });
  });
  const isAlive = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    pid: child.pid as number,
    output: () => output,
    isAlive,
    ended,
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    end: async (signal = stopSignal) => {
      if (!isAlive()) return;
      child.kill(signal);
      child.kill("SIGCONT");
      await ended;
    },
  };
}

/**
 * Ties the child's life to ours: the kernel kills it when this process dies, even by SIGKILL. Where setpriv is
 * missing only the exit handler does.
 */
function tie(program: string, options: ChildOptions, stopSignal: NodeJS.Signals): [string, string[]] {
  const args = [program, ...options.args];
  if (!existsSync(SETPRIV)) {
    if (options.user !== undefined) throw new Error(`${SETPRIV} is missing. Install Debian's package util-linux`);
    return [program, [...options.args]];
  }
  const user = options.user === undefined ? [] : ["--reuid", options.user, "--regid", options.user, "--init-groups"];
  return [SETPRIV, [...user, "--pdeathsig", stopSignal.slice(3), "--", ...args]];
}

function track(child: ChildProcess, stopSignal: NodeJS.Signals): void {
  if (!watchesExit) process.once("exit", endAll);
  watchesExit = true;
  living.set(child, stopSignal);
  child.once("exit", () => living.delete(child));
}

function endAll(): void {
  for (const [child, stopSignal] of living) {
    child.kill(stopSignal);
    child.kill("SIGCONT");
  }
}

/** Starts something on a free port; when another process takes the port first, on another one. */
export async function onFreePort<T>(pick: () => Promise<number>, start: (port: number) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start(await pick());
    } catch (error) {
      if (!(error instanceof PortTakenError) || tries === 10) throw error;
    }
  }
}

/** Starts something again on the port that was ours until now: a process that has taken it to see whether it is free leaves soon. */
export async function onSamePort<T>(start: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof PortTakenError) || tries === 40) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
