/** The package as users get it, built into a place of its own: for programs that must run outside of the test runner. */
import { execFile } from "node:child_process";
import { copyFile, cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");

export interface BuiltPackage {
  readonly path: string;
  remove(): Promise<void>;
}

/** Builds the sources and puts `folders` beside them, where they can import "holdfast" by its own name. */
export async function buildPackage(folders: readonly string[]): Promise<BuiltPackage> {
  const path = await mkdtemp(join(tmpdir(), "holdfast-package-"));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const args = [tsc, "-p", "tsconfig.build.json", "--outDir", join(path, "dist")];
  // Type errors are reported elsewhere; what matters here is what the emitted program does.
  await promisify(execFile)(process.execPath, args, { cwd: ROOT }).catch(() => {});
  await copyFile(join(ROOT, "package.json"), join(path, "package.json"));
  await symlink(join(ROOT, "node_modules"), join(path, "node_modules"));
  for (const folder of folders) await cp(join(ROOT, folder), join(path, folder), { recursive: true });
  return { path, remove: () => rm(path, { recursive: true }) };
}
