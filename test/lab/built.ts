/** The lab as users run it: compiled, because its clients are processes of their own. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");

/** Compiles the sources into a directory of this process's own; it goes when the process goes. */
export function build(): string {
  const cache = join(root, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "holdfast-lab-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  // Type errors are another check's business; the compiler writes its output all the same.
  const args = [
    join(root, "node_modules", "typescript", "bin", "tsc"),
    "-p",
    "tsconfig.build.json",
    "--outDir",
    folder,
  ];
  try {
    execFileSync(process.execPath, args, { cwd: root, stdio: "ignore" });
  } catch {
    // See above: whoever imports the output learns whether it is there.
  }
  return folder;
}
