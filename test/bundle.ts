/**
 * What tests start in a thousand processes, as few files: Node needs half of such a process's time to find and read the hundreds
 * of files of dist/ and of the client libraries. The code is that of dist/, under the same paths, and what it starts itself in other
 * processes and threads is dist/ itself. In test/cli/, usage.test.ts and matrix.test.ts start every command, and open every store,
 * as it is shipped.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import { DIST, ROOT } from "./dist.ts";

const ENTRIES = ["cli/main", "backends/file/backend", "backends/file/disk"];
const CACHE = join(ROOT, "node_modules/.cache/holdfast-bundle");
/** No test run takes longer. */
const OLD_MS = 24 * 3_600_000;

/** Makes it where it is not there yet, and returns its directory, to be used in the place of dist/. */
export async function bundleDist(): Promise<string> {
  const dir = join(CACHE, digest());
  if (!existsSync(dir)) {
    mkdirSync(CACHE, { recursive: true });
    removeOld();
    const aside = mkdtempSync(join(CACHE, "new-"));
    await writeTo(aside);
    try {
      renameSync(aside, dir);
    } catch (error) {
      // Another run was faster, with the same files.
      rmSync(aside, { recursive: true });
      if (!existsSync(dir)) throw error;
    }
  }
  return dir;
}

function digest(): string {
  const hash = createHash("sha256");
  for (const path of [import.meta.filename, ...filesOf(DIST), join(ROOT, "package-lock.json")]) {
    const { mtimeMs, size } = statSync(path);
    hash.update(`${path} ${mtimeMs} ${size}\n`);
  }
  return hash.digest("hex").slice(0, 16);
}

function filesOf(dir: string): readonly string[] {
  const paths = readdirSync(dir, { recursive: true, encoding: "utf8" });
  return paths
    .filter((path) => path.endsWith(".js"))
    .map((path) => join(dir, path))
    .toSorted();
}

async function writeTo(dir: string): Promise<void> {
  const bundle = await rolldown({
    input: Object.fromEntries(ENTRIES.map((entry) => [entry, join(DIST, `${entry}.js`)])),
    platform: "node",
    // The lab has programs of its own, and is tested as it is.
    external: (id) => id.startsWith("node:") || id.startsWith(join(DIST, "lab/")),
    makeAbsoluteExternalsRelative: false,
    logLevel: "silent",
    plugins: [{ name: "places", transform: withPlace }],
  });
  try {
    await bundle.write({ dir, format: "esm", entryFileNames: "[name].js" });
    writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
  } finally {
    await bundle.close();
  }
}

/** Its paths are those of the original files: there are the programs that it starts, and package.json. */
function withPlace(code: string, id: string): string | undefined {
  if (!code.includes("import.meta.url")) return undefined;
  return code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href));
}

function removeOld(): void {
  for (const name of readdirSync(CACHE)) {
    const path = join(CACHE, name);
    if (statSync(path).mtimeMs < Date.now() - OLD_MS) rmSync(path, { recursive: true, force: true });
  }
}
