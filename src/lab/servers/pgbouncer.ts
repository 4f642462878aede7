/** A real PgBouncer before a Postgres of the lab: many clients share few server connections, one transaction at a time. */
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { onFreePort, startChild } from "./child.ts";
import { type PostgresServer, USER } from "./postgres.ts";
import { findProgram } from "./programs.ts";
import { freePort } from "./free-port.ts";
import { HOST, makeScratch, removeScratch } from "./scratch.ts";
import { labPassword } from "./secret.ts";

const run = promisify(execFile);

export interface PgBouncerOptions {
  /** @default "transaction" */
  readonly mode?: "session" | "transaction" | "statement" | undefined;
  /** How many server connections there are. @default 4 */
  readonly connections?: number | undefined;
}

export interface PgBouncer extends AsyncDisposable {
  readonly port: number;
  /** With the password. */
  readonly url: string;
  readonly pid: number;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

export async function startPgBouncer(
  server: Pick<PostgresServer, "port">,
  options: PgBouncerOptions = {},
): Promise<PgBouncer> {
  const program = await findProgram("pgbouncer");
  const place = makeScratch({ open: true });
  const home = join(place, "pgbouncer");
  try {
    let port = 0;
    const child = await onFreePort(freePort, async (free) => {
      port = free;
      await configure(home, free, server.port, options);
      // It refuses to run as root, as Postgres does.
      const args = [join(home, "pgbouncer.ini")];
      return startChild(program, { args, cwd: home, ready: /process up: PgBouncer/u, user: USER });
    });
    const stop = async (): Promise<void> => {
      await child.end();
      removeScratch(place);
    };
    return {
      port,
      url: `postgres://postgres:${labPassword()}@${HOST}:${port}/postgres`,
      pid: child.pid,
      pause: () => child.pause(),
      resume: () => child.resume(),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    removeScratch(place);
    throw error;
  }
}

/** The password is in files that only the server's user reads. */
async function configure(home: string, port: number, serverPort: number, options: PgBouncerOptions): Promise<void> {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const lines = [
    "[databases]",
    `postgres = host=${HOST} port=${serverPort} dbname=postgres user=postgres password=${labPassword()}`,
    "[pgbouncer]",
    `listen_addr = ${HOST}`,
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = scram-sha-256",
    `auth_file = ${join(home, "users.txt")}`,
    `pool_mode = ${options.mode ?? "transaction"}`,
    `default_pool_size = ${options.connections ?? 4}`,
    "max_client_conn = 500",
  ];
  writeFileSync(join(home, "pgbouncer.ini"), `${lines.join("\n")}\n`, { mode: 0o600 });
  writeFileSync(join(home, "users.txt"), `"postgres" "${labPassword()}"\n`, { mode: 0o600 });
  if (USER !== undefined) await run("chown", ["-R", USER, home]);
}
