/**
 * Free loopback ports for a lab's servers and proxies. A port that was given to one process is given to no other one while that lives:
 * its server may be away for a moment, to be started again there.
 */
import { randomInt } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOST, isAlive } from "./scratch.ts";

/**
 * Below the range from which the kernel takes the ports of outgoing connections: so no outgoing connection
 * can sit on the port of a server that restarts, and no client can connect to itself while the server is away.
 */
const FIRST_PORT = 12_000;
const LAST_PORT = 31_999;
/** Of more, the oldest are given back. Nothing in the lab has so many servers. */
const TAKEN_MAX = 2000;

const taken = new Set<number>();
let place: string | undefined;

/** A port that is free now. A process that is none of ours may still take it: the caller then tries another one. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 400; tries++) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (taken.has(port) || !reserve(port)) continue;
    if (await isFree(port)) return port;
    giveBack(port);
  }
  throw new Error(`No free port between ${FIRST_PORT} and ${LAST_PORT} on ${HOST}`);
}

/** A symbolic link is made in one step, and says whose it is. `false`: another living process has the port. */
function reserve(port: number): boolean {
  place ??= open();
  const link = join(place, String(port));
  try {
    symlinkSync(String(process.pid), link);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    removeIfDead(link);
    return false;
  }
  taken.add(port);
  if (taken.size > TAKEN_MAX) for (const oldest of [...taken].slice(0, TAKEN_MAX / 2)) giveBack(oldest);
  return true;
}

/** It is not used any more. Proxies say so, which come and go by the hundred; servers keep theirs until the process ends. */
export function giveBack(port: number): void {
  if (taken.delete(port)) rmSync(join(place!, String(port)), { force: true });
}

/** Of a process that was killed before it could give it back. */
function removeIfDead(link: string): void {
  try {
    if (!isAlive(Number(readlinkSync(link)))) rmSync(link);
  } catch {
    // It was given back just now.
  }
}

function open(): string {
  const uid = process.getuid?.();
  const path = join(tmpdir(), `holdfast-ports-${uid ?? "user"}`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const stat = lstatSync(path);
  if (!stat.isDirectory() || (uid !== undefined && stat.uid !== uid)) {
    throw new Error(`${path} belongs to another user. Remove it`);
  }
  for (const name of readdirSync(path)) removeIfDead(join(path, name));
  process.once("exit", () => {
    for (const port of taken) rmSync(join(path, String(port)), { force: true });
  });
  return path;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, HOST, () => probe.close(() => resolve(true)));
  });
}
