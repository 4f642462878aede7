/**
 * Classes of a Java server, as Java keeps them in a file once they are loaded and checked: a server that begins with that file
 * starts in half the processor time. Made by the first process that starts one, for all that share its directory.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

/** A directory for such files. Without it servers start as they always do: one start alone does not pay for the file. */
export const CLASSES_VARIABLE: string = "HOLDFAST_LAB_JAVA_CLASSES";

/**
 * The arguments of java that name the file, if any. `make` starts the same server with the given arguments and lets it exit by itself:
 * only then does Java write the file. One process makes it, and the others do not wait: they start without it.
 */
export async function sharedClasses(name: string, make: (args: readonly string[]) => Promise<void>): Promise<string[]> {
  const shared = process.env[CLASSES_VARIABLE];
  if (shared === undefined) return [];
  const file = join(shared, `${name}.jsa`);
  // The file fits these programs and no others. Where it does not fit, Java says nothing and loads the classes itself.
  const use = [`-XX:SharedArchiveFile=${file}`, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"];
  if (existsSync(file)) return use;
  const mine = join(shared, `${name}.making`);
  try {
    mkdirSync(mine);
  } catch {
    return [];
  }
  const made = join(mine, "classes.jsa");
  await make([`-XX:ArchiveClassesAtExit=${made}`, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]);
  // Java need not have written it: it is a saving, and nothing depends on it. The directory stays, so no process tries again.
  if (!existsSync(made)) return [];
  renameSync(made, file);
  rmSync(mine, { recursive: true });
  return use;
}
