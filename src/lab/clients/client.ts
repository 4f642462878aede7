/** The lab's side of a client process: gives orders, hears reports, and stops, continues or kills it. */
import { fork } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type ClientSetup, type Closed, type FromClient, type Order, SETUP_VARIABLE, type ToClient } from "./orders.ts";
import { systemClock } from "../../contract/clock.ts";
import { within } from "../../contract/time-limit.ts";
import type { History } from "../events.ts";

export interface Client {
  readonly name: string;
  readonly pid: number;
  /** Gives an order. Resolves when the client has carried it out; rejects when it failed or was killed. */
  tell(order: Order): Promise<unknown>;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Closes its locks and ends it. `thorough`: waits for, and resolves to, what the locks left open in the process. */
  stop(thorough?: boolean): Promise<Closed>;
}

interface Waiter {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

const PROGRAM = fileURLToPath(new URL("client-process.js", import.meta.url));
/** These only end what hangs: however busy the machine is, a process that is asked to close and end does so. */
const PATIENCE_MS = 30_000;
const THOROUGH_PATIENCE_MS = 180_000;

export interface ClientOptions extends ClientSetup {
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Gets what the soak's loops report. */
  readonly onSection?: ((message: SectionMessage) => void) | undefined;
}

export type SectionMessage = FromClient & { readonly type: "claimant" | "write" };

/** A stopped process does not notice that the lab is gone: the kernel ends it then. */
export function tiedNode(): { execPath?: string; execArgv: string[] } {
  const setpriv = "/usr/bin/setpriv";
  if (!existsSync(setpriv)) return { execArgv: [] };
  return { execPath: setpriv, execArgv: ["--pdeathsig", "KILL", "--", process.execPath] };
}

/** Starts a client; resolves when it has opened its locks. */
export async function startClient(options: ClientOptions, history: History): Promise<Client> {
  const { env, onSection, ...setup } = options;
  const { NODE_OPTIONS: _, ...clean } = process.env;
  const child = fork(PROGRAM, [], {
    serialization: "advanced",
    // Not as an argument: the URL holds the store's password, and every user can read arguments.
    env: { ...clean, ...env, [SETUP_VARIABLE]: JSON.stringify(setup) },
    ...tiedNode(),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const waiting = new Map<number, Waiter>();
  let complaint = "";
  child.stderr?.on("data", (data: Buffer) => (complaint = (complaint + data.toString()).slice(-4000)));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let lastId = 0;
  await new Promise<void>((resolve, reject) => {
    child.on("message", (message: FromClient) => {
      if (message.type === "ready") resolve();
      else if (message.type === "claimant" || message.type === "write") onSection?.(message);
      else if (message.type === "event") history.add(setup.client, message.happening, message.atMs);
      else if (message.type === "done") waiting.get(message.id)?.resolve(message.value);
      else waiting.get(message.id)?.reject(new Error(message.message));
    });
    child.once("exit", (code, signal) => {
      const error = new Error(`Client ${setup.client} ended (${signal ?? code}) ${complaint}`);
      reject(error);
      for (const { reject: fail } of waiting.values()) fail(error);
    });
  });
  const tell = (order: Order): Promise<unknown> => {
    const id = ++lastId;
    const answer = new Promise<unknown>((resolve, reject) => waiting.set(id, { resolve, reject }));
    child.send({ id, order } satisfies ToClient, (error) => error && waiting.get(id)?.reject(error));
    return answer.finally(() => waiting.delete(id));
  };
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  return {
    name: setup.client,
    pid: child.pid as number,
    tell,
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    kill,
    stop: async (thorough = false) => {
      if (child.exitCode !== null || child.signalCode !== null) return { left: [] };
      child.kill("SIGCONT");
      const patienceMs = thorough ? THOROUGH_PATIENCE_MS : PATIENCE_MS;
      const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
      const closed = (await tell({ do: "close", thorough }).catch(() => ({
        left: ["a process that did not close its locks in time"],
      }))) as Closed;
      clearTimeout(timer);
      const hasEnded = ended.then(() => true);
      const endsAlone = !thorough || (await within(systemClock, hasEnded, patienceMs)) === true;
      await kill();
      return endsAlone ? closed : { ...closed, left: [...closed.left, "a process that does not end by itself"] };
    },
  };
}
