/** Where the build under test is: `dist/`, or the folder named by HOLDFAST_DIST, to compare two builds. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const DIST = process.env.HOLDFAST_DIST ?? join(import.meta.dirname, "..", "..", "dist");

/** What is not shipped is in `build/`. Backends had no folder of their own in builds before 0.2. */
export async function built(file, dist = DIST) {
  const places = [join(dist, file), join(dist, "..", "build", file), join(dist, file.replace(/^backends\//, ""))];
  const path = places.find((one) => existsSync(one)) ?? places[0];
  return await import(pathToFileURL(path).href);
}
