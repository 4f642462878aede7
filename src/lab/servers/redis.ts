/** A real redis-server on a free loopback port, with a random password, and without persistence unless `args` say so. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { onFreePort, onSamePort, startChild } from "./child.ts";
import type { Child } from "./child.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { findProgram } from "./programs.ts";
import { labPassword } from "./secret.ts";

const run = promisify(execFile);

export interface RedisOptions {
  /** @default a free one */
  readonly port?: number | undefined;
  /** Further arguments of redis-server, such as `["--appendonly", "yes"]`. */
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Where it keeps its files; not removed at the end. @default a temporary directory */
  readonly dir?: string | undefined;
}

export interface RedisServer extends AsyncDisposable {
  readonly host: "127.0.0.1";
  readonly port: number;
  /** With the password. */
  readonly url: string;
  readonly password: string;
  readonly dir: string;
  /** Changes at every restart. */
  readonly pid: number;
  /** What redis-cli prints for this command, without the last line end. Rejects on an error reply. */
  cli(...args: string[]): Promise<string>;
  /** Freezes the process (SIGSTOP): connections stay open and get no answer. */
  pause(): void;
  resume(): void;
  /** SIGKILL, without a chance to save. */
  kill(): Promise<void>;
  /** Starts again on the same port with the same files, after killing it if it runs. */
  restart(): Promise<void>;
  /** Ends the server and removes its temporary directory. */
  stop(): Promise<void>;
}

const READY = /Ready to accept connections|Sentinel ID is/u;

/** Starts redis-server and resolves when it accepts connections. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const { args = [] } = options;
  const dir = options.dir ?? makeScratch();
  const start = (port: number): Promise<Server> => startServer("redis-server", dir, port, options.env, args);
  try {
    const server = await (options.port === undefined ? onFreePort(freePort, start) : start(options.port));
    return options.dir === undefined ? withRemoval(server) : server;
  } catch (error) {
    if (options.dir === undefined) removeScratch(dir);
    throw error;
  }
}

type Server = RedisServer;

/** Also starts sentinels: they are the same program, with a configuration file that they rewrite. */
export async function startServer(
  name: "redis-server" | "redis-sentinel",
  dir: string,
  port: number,
  env: Readonly<Record<string, string>> | undefined,
  args: readonly string[],
): Promise<RedisServer> {
  const program = await findProgram(name);
  const cliProgram = await findProgram("redis-cli");
  const password = ownPassword(args) ?? labPassword();
  const quiet = ["--port", String(port), "--bind", HOST, "--save", "", "--appendonly", "no", "--dir", dir];
  // The first argument is a file, and options go after it. A sentinel's has the password in it already.
  const all = name === "redis-server" ? [writeSecret(dir, password), ...quiet, ...args] : [...args];
  const launch = (): Promise<Child> => startChild(program, { args: all, cwd: dir, env, ready: READY });
  let child = await launch();
  return {
    host: HOST,
    port,
    url: `redis://:${encodeURIComponent(password)}@${HOST}:${port}`,
    password,
    dir,
    get pid() {
      return child.pid;
    },
    cli: async (...command) => {
      const env = { ...process.env, REDISCLI_AUTH: password };
      const asked = run(cliProgram, ["-e", "-h", HOST, "-p", String(port), ...hidden(command, password)], { env });
      if (command.includes(password))
        asked.child.stdin?.end(`${command.map((word) => JSON.stringify(word)).join(" ")}\n`);
      return (await asked).stdout.replace(/\n$/u, "");
    },
    pause: () => child.pause(),
    resume: () => child.resume(),
    kill: () => child.end("SIGKILL"),
    restart: async () => {
      await child.end("SIGKILL");
      child = await onSamePort(launch);
    },
    stop: () => child.end("SIGKILL"),
    [Symbol.asyncDispose]: () => child.end("SIGKILL"),
  };
}

/** A file that only this user reads: on the command line every user could. */
function writeSecret(dir: string, password: string): string {
  const file = join(dir, "password.conf");
  writeFileSync(file, `requirepass "${password}"\nmasterauth "${password}"\n`, { mode: 0o600 });
  return file;
}

/** For tests of passwords themselves. */
function ownPassword(args: readonly string[]): string | undefined {
  const at = args.indexOf("--requirepass");
  return at === -1 ? undefined : args[at + 1];
}

/** A command with the password in it goes through stdin. */
function hidden(command: readonly string[], password: string): readonly string[] {
  return command.includes(password) ? [] : command;
}

function withRemoval(server: RedisServer): RedisServer {
  const stop = async (): Promise<void> => {
    await server.kill();
    removeScratch(server.dir);
  };
  // Not a spread: `pid` is a getter.
  return Object.defineProperties(server, { stop: { value: stop }, [Symbol.asyncDispose]: { value: stop } });
}
