/** Where a lab's servers live: loopback, and a temporary directory that goes when the process goes. */
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const HOST = "127.0.0.1";

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

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
