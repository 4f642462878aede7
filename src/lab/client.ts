/** The lab's side of a client process: gives orders, hears reports, and stops, continues or kills it. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ClientSetup, FromClient, Order, ToClient } from "./client-orders.ts";
import type { History } from "./history.ts";

export interface Client {
  readonly name: string;
  readonly pid: number;
  /** Gives an order. Resolves when the client has carried it out; rejects when it failed or was killed. */
  tell(order: Order): Promise<unknown>;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Closes its locks and ends it. */
  stop(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL("client-process.js", import.meta.url));
const PATIENCE_MS = 5000;

export interface ClientOptions extends ClientSetup {
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Sees each event before the history does; for the soak, which keeps counts and not histories. */
  readonly onEvent?: ((event: FromClient & { type: "event" }) => void) | undefined;
}

/** Starts a client; resolves when it has opened its locks. */
export async function startClient(options: ClientOptions, history: History): Promise<Client> {
  const { env, onEvent, ...setup } = options;
  const { NODE_OPTIONS: _, ...clean } = process.env;
  const child = fork(PROGRAM, [JSON.stringify(setup)], {
    serialization: "advanced",
    env: { ...clean, ...env },
    execArgv: [],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let complaint = "";
  child.stderr?.on("data", (data: Buffer) => (complaint = (complaint + data.toString()).slice(-4000)));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let lastId = 0;
  await new Promise<void>((resolve, reject) => {
    child.on("message", (message: FromClient) => {
      if (message.type === "ready") resolve();
      else if (message.type === "event" && onEvent !== undefined) onEvent(message);
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
    child.send({ id, order } satisfies ToClient);
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
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGCONT");
      const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
      await tell({ do: "close" }).catch(() => undefined);
      clearTimeout(timer);
      await kill();
    },
  };
}
