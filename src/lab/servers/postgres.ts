/** A real Postgres on a free loopback port, with a standby if asked for: fresh data, a random password, not safe from power cuts. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { onFreePort, startChild } from "./child.ts";
import type { Child } from "./child.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { findProgram } from "./programs.ts";
import { labPassword } from "./secret.ts";

const run = promisify(execFile);

export interface PostgresOptions {
  /** Further settings, such as `{ max_connections: "20" }`. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

export interface PostgresServer extends AsyncDisposable {
  readonly host: "127.0.0.1";
  readonly port: number;
  /** With the password. */
  readonly url: string;
  /** Changes at every restart. */
  readonly pid: number;
  /** What psql prints for this statement: unaligned, without headings. */
  sql(statement: string): Promise<string>;
  pause(): void;
  resume(): void;
  /** Ends the server as a crash does: what was not flushed is lost. */
  crash(): Promise<void>;
  /** Crashes it and starts again with the same data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface PostgresStandby extends PostgresServer {
  /** Makes it a primary, with a timeline of its own. Resolves when it accepts writes. */
  promote(): Promise<void>;
}

/** Postgres refuses to run as root, so it runs as Debian's user for it then. */
export const USER: string | undefined = process.getuid?.() === 0 ? "postgres" : undefined;

/** On a busy machine a new database takes its time. The limit only ends what has failed anyway. */
const START_MS = 120_000;

/** Makes a new database and resolves when it accepts connections. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  return await serve(initialise, /database system is ready to accept connections/u, options);
}

/** Copies a running primary and follows it by streaming, asynchronously unless the primary's settings say otherwise. */
export async function startStandby(primary: PostgresServer, options: PostgresOptions = {}): Promise<PostgresStandby> {
  const ready = /database system is ready to accept read-only connections/u;
  const server = await serve((home, data) => copy(primary, home, data), ready, options);
  const promote = async (): Promise<void> => {
    const promoted = await server.sql("select pg_promote(true, 30)");
    if (promoted !== "t") throw new Error("The standby was not promoted within 30 s");
  };
  // Not spread: the pid is read anew each time.
  return Object.assign(server, { promote });
}

async function serve(
  prepare: (home: string, data: string) => Promise<void>,
  ready: RegExp,
  options: PostgresOptions,
): Promise<PostgresServer> {
  const postgres = await findProgram("postgres");
  const psql = await findProgram("psql");
  const place = makeScratch({ open: true });
  // Its own below ours: only its user reads it, and only we remove it.
  const home = join(place, "postgres");
  const data = join(home, "data");
  try {
    await prepare(home, data);
    const settings = Object.entries({ ...FAST, ...options.settings }).flatMap(([name, value]) => [
      "-c",
      `${name}=${value}`,
    ]);
    const launch = (port: number, isReady: RegExp): Promise<Child> => {
      const args = ["-D", data, "-h", HOST, "-p", String(port), "-k", data, ...settings];
      // SIGQUIT is Postgres's immediate shutdown: unlike SIGKILL it takes the backends along.
      return startChild(postgres, {
        args,
        cwd: home,
        ready: isReady,
        user: USER,
        stopSignal: "SIGQUIT",
        startMs: START_MS,
      });
    };
    let port = 0;
    let child = await onFreePort(freePort, (free) => {
      port = free;
      return launch(free, ready);
    });
    const url = `postgres://postgres:${labPassword()}@${HOST}:${port}/postgres`;
    // Every user can read arguments.
    const target = `postgres://postgres@${HOST}:${port}/postgres`;
    const env = { ...process.env, PGPASSWORD: labPassword() };
    const end = async (): Promise<void> => {
      continueFamily(child.pid);
      await child.end();
    };
    const stop = async (): Promise<void> => {
      await end();
      removeScratch(place);
    };
    return {
      host: HOST,
      port,
      url,
      get pid() {
        return child.pid;
      },
      sql: async (statement) =>
        (await run(psql, [target, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement], { env })).stdout.trimEnd(),
      pause: () => {
        // First the parent, so that there are no new ones.
        child.pause();
        for (const pid of childrenOf(child.pid)) signal(pid, "SIGSTOP");
      },
      resume: () => {
        continueFamily(child.pid);
        child.resume();
      },
      crash: end,
      restart: async () => {
        await end();
        child = await launch(port, /database system is ready to accept/u);
      },
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    removeScratch(place);
    throw error;
  }
}

/** Each connection has a process of its own, in a session of its own. */
function childrenOf(parent: number): readonly number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/u.test(entry) && parentOf(entry) === parent)
    .map(Number);
}

function parentOf(pid: string): number | undefined {
  try {
    // After the name, which may have any characters: the state, and the parent.
    return Number(/\) \S (\d+) [^)]*$/u.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1]);
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended meanwhile.
  }
}

function continueFamily(parent: number): void {
  for (const pid of childrenOf(parent)) signal(pid, "SIGCONT");
}

const FAST = {
  // A killed server keeps what it committed; only a power cut would lose it.
  fsync: "off",
  full_page_writes: "off",
  shared_buffers: "16MB",
  max_connections: "50",
} as const;

/** A directory for a new database that all processes with this variable share: to copy it is cheaper than to make another. */
export const TEMPLATE_VARIABLE: string = "HOLDFAST_LAB_POSTGRES_TEMPLATE";

async function initialise(home: string, data: string): Promise<void> {
  const shared = process.env[TEMPLATE_VARIABLE];
  if (shared === undefined) return await makeDatabase(home, data);
  const template = join(shared, "data");
  if (existsSync(template)) {
    mkdirSync(home, { mode: 0o700 });
    await run("cp", ["-a", template, data]);
    if (USER !== undefined) await run("chown", [USER, home]);
    return;
  }
  await makeDatabase(home, data);
  const mine = join(shared, randomUUID());
  await run("cp", ["-a", data, mine]);
  try {
    renameSync(mine, template);
  } catch {
    // Another server was first.
    rmSync(mine, { recursive: true, force: true });
  }
}

async function makeDatabase(home: string, data: string): Promise<void> {
  const initdb = await findProgram("initdb");
  const file = join(home, "password");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(file, `${labPassword()}\n`, { mode: 0o600 });
  if (USER !== undefined) await run("chown", ["-R", USER, home]);
  const asked = ["-A", "scram-sha-256", "-U", "postgres", `--pwfile=${file}`];
  const args = ["-D", data, ...asked, "--no-sync", "--locale", "C", "-E", "UTF8"];
  const ready = /Success/u;
  const child = await startChild(initdb, { args, cwd: home, ready, user: USER, startMs: START_MS });
  await child.ended;
  rmSync(file);
}

async function copy(primary: PostgresServer, home: string, data: string): Promise<void> {
  const backup = await findProgram("pg_basebackup");
  mkdirSync(home, { mode: 0o700 });
  const env = { ...process.env, PGPASSWORD: labPassword() };
  const from = `postgres://postgres@${HOST}:${primary.port}/postgres`;
  await run(backup, ["-D", data, "-d", from, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"], { env });
  if (USER !== undefined) await run("chown", ["-R", USER, home]);
}
