/** Where a lab's servers live: a free loopback port, and a temporary directory that goes when the process goes. */
import { randomInt } from "node:crypto";
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const HOST = "127.0.0.1";

/**
 * Below the range from which the kernel takes the ports of outgoing connections: so no outgoing connection
 * can sit on the port of a server that restarts, and no client can connect to itself while the server is away.
 */
const FIRST_PORT = 12_000;
const LAST_PORT = 31_999;

/** A port that is free now. Another process may still take it: the caller then tries another one. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port between ${FIRST_PORT} and ${LAST_PORT} on ${HOST}`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, HOST, () => probe.close(() => resolve(true)));
  });
}

const PREFIX = "holdfast-lab-";
const ours = new Set<string>();
let watchesExit = false;

/** A new directory that only this user reads (`open`: every user), removed at the latest when this process exits. */
export function makeScratch(options: { readonly open?: boolean } = {}): string {
  if (!watchesExit) {
    watchesExit = true;
    sweep();
    process.once("exit", () => {
      for (const place of ours) removeScratch(place);
    });
  }
  const place = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  if (options.open === true) chmodSync(place, 0o755);
  ours.add(place);
  return place;
}

export function removeScratch(place: string): void {
  ours.delete(place);
  rmSync(place, { recursive: true, force: true, maxRetries: 3 });
}

/** Removes what processes left that were killed before they could. */
function sweep(): void {
  for (const entry of readdirSync(tmpdir())) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(entry)?.[1];
    const place = join(tmpdir(), entry);
    if (pid !== undefined && !isAlive(Number(pid)) && isOurs(place)) rmSync(place, { recursive: true, force: true });
  }
}

/** Any user may make something of that name in a shared directory: only our own directories are removed, never through a link. */
function isOurs(place: string): boolean {
  try {
    const stat = lstatSync(place);
    return stat.isDirectory() && stat.uid === process.getuid?.();
  } catch {
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
