/** Finds a program before the lock is taken: a typing error should not cost a wait. */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

export type Found = { readonly path: string } | { readonly problem: "missing" | "not executable" };

/** Looks where execvp(3) looks: a name with a slash is a path, any other is searched for in `PATH`. */
export function findProgram(name: string, searchPath: string | undefined): Found {
  if (name.includes("/")) return check(resolve(name));
  let refused = false;
  for (const folder of (searchPath ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter)) {
    const found = check(resolve(join(folder === "" ? "." : folder, name)));
    if ("path" in found) return found;
    refused ||= found.problem === "not executable";
  }
  return { problem: refused ? "not executable" : "missing" };
}

function check(path: string): Found {
  try {
    if (!statSync(path).isFile()) return { problem: "not executable" };
    accessSync(path, constants.X_OK);
    return { path };
  } catch (error) {
    return { problem: (error as NodeJS.ErrnoException).code === "EACCES" ? "not executable" : "missing" };
  }
}
