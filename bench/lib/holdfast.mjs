/** Where the build under test is: `dist/`, or the folder named by HOLDFAST_DIST, to compare two builds. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const DIST = process.env.HOLDFAST_DIST ?? join(import.meta.dirname, "..", "..", "dist");

export async function built(file, dist = DIST) {
  return await import(pathToFileURL(join(dist, file)).href);
}
