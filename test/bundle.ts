/**
 * What tests start in a thousand processes, as few files: Node needs half of such a process's time to find and read the hundreds
 * of files of build/ and of the client libraries. The code is that of build/, under the same paths, and what it starts itself in other
 * processes and threads is build/ itself. The compiled code of the command line lies beside it: see test/code-cache.cjs. In test/cli/,
 * usage.test.ts and matrix.test.ts start every command, and open every store, as it is shipped.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type OutputOptions, type Plugin, rolldown } from "rolldown";
import { BUILD, ROOT } from "./dist.ts";

const MAIN = "cli/main";
const MODULES = ["backends/file/backend", "backends/file/disk"];
const STARTER_NAME = "code-cache.js";
const STARTER = join(import.meta.dirname, "code-cache.cjs");
/** What most tests start: the code of these is compiled once. */
const COMMANDS = [
  ["run", "x", "--", "true"],
  ["once", "y", "--keep", "1m", "--", "true"],
  ["acquire", "x", "--ttl", "1m"],
  ["show", "x"],
  ["ls"],
  ["release", "x", "--fence", "1"],
  ["run", "x", "--unknown"],
];
const CACHE = join(ROOT, "node_modules/.cache/holdfast-bundle");
/** No test run takes longer. */
const OLD_MS = 24 * 3_600_000;

/** Makes it where it is not there yet, and returns its directory, to be used in the place of build/. */
export async function bundleDist(): Promise<string> {
  const dir = join(CACHE, digest());
  if (!existsSync(dir)) {
    mkdirSync(CACHE, { recursive: true });
    removeOld();
    const aside = mkdtempSync(join(CACHE, "new-"));
    await writeTo(aside);
    try {
      renameSync(aside, dir);
      compile(join(dir, dirname(MAIN)));
    } catch (error) {
      // Another run was faster, with the same files.
      rmSync(aside, { recursive: true });
      if (!existsSync(dir)) throw error;
    }
  }
  return dir;
}

function digest(): string {
  const hash = createHash("sha256").update(process.version);
  for (const path of [import.meta.filename, STARTER, ...filesOf(BUILD), join(ROOT, "package-lock.json")]) {
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
  await write(dir, MODULES, { format: "esm", entryFileNames: "[name].js" });
  writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
  // What needs no loader of modules starts sooner, and V8 keeps the compiled code of nothing else.
  const place = join(dir, dirname(MAIN));
  await write(place, [MAIN], { format: "cjs", entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" }, [
    { name: "imports", renderChunk: (code) => code.replaceAll(/\bimport\(/g, "importForTests(") },
  ]);
  writeFileSync(join(place, "package.json"), '{ "type": "commonjs" }');
  copyFileSync(STARTER, join(place, STARTER_NAME));
  writeFileSync(join(dir, `${MAIN}.js`), `require("./${STARTER_NAME}"); require("./${MAIN}.js");\n`);
}

async function write(
  dir: string,
  entries: readonly string[],
  output: OutputOptions,
  plugins: readonly Plugin[] = [],
): Promise<void> {
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((entry) => [entry, join(BUILD, `${entry}.js`)])),
    platform: "node",
    // The lab has programs of its own, and is tested as it is.
    external: (id) => id.startsWith("node:") || id.startsWith(join(BUILD, "lab/")),
    makeAbsoluteExternalsRelative: false,
    logLevel: "silent",
    plugins: [{ name: "places", transform: withPlace }, ...plugins],
  });
  try {
    await bundle.write({ dir, ...output });
  } finally {
    await bundle.close();
  }
}

/** Runs commands that call what most commands do; each leaves what was not compiled before it. The rest is compiled at last. */
function compile(dir: string): void {
  const scratch = mkdtempSync(join(tmpdir(), "hf-compile-"));
  const env = {
    ...process.env,
    HOLDFAST_URL: `file://${join(scratch, "locks")}`,
    HOLDFAST_STATE_DIR: join(scratch, "claims"),
    HOLDFAST_TEST_COMPILED: "write",
  };
  const start = (file: string, args: readonly string[]): void => {
    // Some of these fail as they should.
    spawnSync(process.execPath, [join(dir, file), ...args], { env, stdio: "ignore" });
  };
  for (const args of COMMANDS) start("main.js", args);
  start(STARTER_NAME, []);
  rmSync(scratch, { recursive: true, force: true });
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
