// Makes dist/, which is published, from build/, which the compiler wrote: the same code in fewer files, so that it loads sooner.
//
// Each module is in one file of dist/ only, so that it is loaded once, whichever subpath leads to it. Every path that is imported,
// started as a program, or loaded by a worker thread stays; the other files are in dist/chunks/. Names stay as they are, and a line
// above each module says where it comes from, so that a stack trace can be read. Comments stay in the declarations: editors show them.
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join, normalize, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/** Programs, and what a worker thread imports by its path. */
const STARTED = /(?:-process|-worker|(?:^|\/)open)\.js$/;
/** Only tests and scripts use these, from build/. */
const AT_HOME = /^(?:lab\/drive|testing\/(?:programs|simulation))\//;
/** A small process that starts with each `holdfast run`. It shares nothing, so that it has one small file to load. */
const WARDEN = "cli/run/warden-process";
const IMPORTS = /^(?:import|export)\s(?:[^"';]*?\sfrom\s+)?"(\.[^"]+)"/gm;
/** A file beside a module, by its URL. */
const BESIDE = /new URL\("([^"]+)",\s*import\.meta\.url\)/g;
/** A module that a worker thread loads again. */
const ITSELF = /\bmodule: import\.meta\.url\b/g;
/** What distinguishes the names of groups from those of modules. */
const GROUP = "group-";
const PLACE = "holdfast-place:";

/** What package.json names, and what is started: by its path without the ending. */
export function entriesOf(root) {
  const { exports, bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const named = [...Object.values(exports).flatMap((target) => target.default ?? []), ...Object.values(bin)];
  const started = readdirSync(join(root, "build"), { recursive: true, encoding: "utf8" }).filter(
    (path) => STARTED.test(path) && !AT_HOME.test(path),
  );
  const paths = [...named.map((path) => relative("dist", path)), ...started];
  return new Set(paths.map((path) => path.replace(/\.js$/, "")));
}

/** The modules that are loaded with these, without those that are loaded on demand. */
export function loadedWith(...modules) {
  const found = new Set();
  const open = [...modules];
  while (open.length > 0) {
    const module = open.pop();
    if (found.has(module)) continue;
    found.add(module);
    for (const [, target] of readFileSync(module, "utf8").matchAll(IMPORTS))
      open.push(resolve(dirname(module), target));
  }
  return found;
}

/** Declarations that the subpaths of package.json lead to, through whatever they import. */
export function reachable(root, exports) {
  const open = Object.values(exports).flatMap((target) => target.types ?? []);
  const found = new Set();
  while (open.length > 0) {
    const file = relative("dist", normalize(open.pop()));
    if (found.has(file) || !existsSync(join(root, "build", file))) continue;
    found.add(file);
    const text = readFileSync(join(root, "build", file), "utf8");
    for (const [, target] of text.matchAll(/(?:from|import|import\()\s*"(\.[^"]+)\.[jt]s"/g)) {
      open.push(join("dist", dirname(file), `${target}.d.ts`));
    }
  }
  return found;
}

/**
 * Files beside a module are found from the chunk that it went to. What a bundler should copy is written as bundlers know it; a
 * module that names itself is loaded from where it is, as ever.
 */
const places = (build) => ({
  name: "places",
  transform(code, id) {
    const own = relative(build, id);
    return code
      .replaceAll(
        BESIDE,
        (_, path) => `new URL("${PLACE}${relative(build, resolve(dirname(id), path))}", import.meta.url)`,
      )
      .replaceAll(ITSELF, `module: ((here) => new URL("${PLACE}${own}", here).href)(import.meta.url)`);
  },
  renderChunk: (code, { fileName }) =>
    code.replaceAll(new RegExp(`${PLACE}([^"]+)`, "g"), (_, place) => {
      const path = relative(dirname(fileName), place);
      return path.startsWith(".") ? path : `./${path}`;
    }),
});

/**
 * What is always loaded together is one file. Only of its own room: what others import too would make them load the rest. The
 * core is in two, because those who only check fences need but one of them.
 */
function groupsOf(build) {
  const at = (path) => join(build, path);
  const group = (name, room, ...entries) => {
    const modules = loadedWith(...entries.map(at));
    // Nothing imports these two: they need no file besides their own.
    for (const path of ["index.js", "cli/main.js"]) modules.delete(at(path));
    return { name: `${GROUP}${name}`, test: (id) => modules.has(id) && id.startsWith(at(room)) };
  };
  const fences = [...entriesOf(dirname(build))].filter((path) => path.startsWith("fence/")).map((path) => `${path}.js`);
  const core = loadedWith(at("index.js"));
  const shared = group("contract", "contract/", ...fences);
  const groups = [
    { ...shared, test: (id) => core.has(id) && shared.test(id) },
    group("core", "", "index.js"),
    group("cli", "cli/", "cli/main.js"),
    group("run", "cli/", "cli/commands/run.js"),
    group("urls", "backends/", "backends/open-url.js"),
    group("file", "backends/file/", "backends/file/open.js", "backends/file/index.js"),
  ];
  return groups.map((one, index) => ({ ...one, priority: groups.length - index }));
}

/** A chunk is named after the last of its modules, which imports the others; or after the one that it leads to. */
const nameIn =
  (build) =>
  ({ name, moduleIds, facadeModuleId }) =>
    `chunks/${name.startsWith(GROUP) ? `${name.slice(GROUP.length)}.js` : relative(build, moduleIds.at(-1) ?? facadeModuleId)}`;

/** Writes these entries, and the chunks that they share, to `dir`. */
async function bundle(build, dir, entries, output) {
  const made = await rolldown({
    input: Object.fromEntries([...entries].map((path) => [path, join(build, `${path}.js`)])),
    platform: "node",
    external: (id) => !id.startsWith(".") && !id.startsWith("/"),
    preserveEntrySignatures: "allow-extension",
    plugins: [places(build)],
    onLog: (_, log) => {
      // What a command loads on demand may be loaded before it.
      if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") throw new Error(`dist/ could not be built: ${log.message}`);
    },
  });
  await made.write({
    dir,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: nameIn(build),
    comments: { legal: true, annotation: true, jsdoc: false },
    minifyInternalExports: false,
    ...output,
  });
  await made.close();
}

export async function buildDist(root) {
  const build = join(root, "build");
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const fresh = join(root, "dist.new");
  rmSync(fresh, { recursive: true, force: true });
  const entries = entriesOf(root);
  entries.delete(WARDEN);
  await bundle(build, fresh, entries, {
    codeSplitting: { groups: groupsOf(build), includeDependenciesRecursively: false },
  });
  await bundle(build, fresh, [WARDEN], { codeSplitting: false });
  for (const file of reachable(root, exports)) {
    mkdirSync(dirname(join(fresh, file)), { recursive: true });
    cpSync(join(build, file), join(fresh, file));
  }
  chmodSync(join(fresh, "cli/main.js"), 0o755);
  // Programs that run meanwhile load what they still need from a whole dist/, the old one or the new one.
  const old = join(root, "dist.old");
  rmSync(old, { recursive: true, force: true });
  if (existsSync(join(root, "dist"))) renameSync(join(root, "dist"), old);
  renameSync(fresh, join(root, "dist"));
  rmSync(old, { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDist(fileURLToPath(new URL("..", import.meta.url)));
