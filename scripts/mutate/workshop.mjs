// A copy of the repository in which code is broken and tests are run: the working tree is never touched.
import { execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildLean, toJavaScript } from "./lean.mjs";

/** What tests neither read nor run. */
const LEFT_OUT = new Set(["node_modules", ".git", "coverage"]);
const NEVER_STALE = new Date("2100-01-01");

export class Workshop {
  /** The group of processes that tests at this moment. */
  running;
  /** By path: what stood there before, and what stands there now. */
  #changed = new Map();

  /**
   * @param {string} root the repository, with build/ made from src/
   * @param {boolean} lean tests run without Vitest: see lean-vitest.mjs
   */
  constructor(root, lean) {
    this.dir = mkdtempSync(join(tmpdir(), "holdfast-mutate-"));
    for (const entry of readdirSync(root)) {
      if (!LEFT_OUT.has(entry)) cpSync(join(root, entry), join(this.dir, entry), { recursive: true });
    }
    // Each package is linked for itself, so that caches and stamps in node_modules are the copy's own.
    mkdirSync(join(this.dir, "node_modules"));
    for (const entry of readdirSync(join(root, "node_modules"))) {
      if (entry === ".cache" || entry.startsWith(".vite")) continue;
      symlinkSync(join(root, "node_modules", entry), join(this.dir, "node_modules", entry));
    }
    // What tests start as it is shipped, module by module: one module is broken at a time.
    rmSync(join(this.dir, "dist"), { recursive: true });
    symlinkSync("build", join(this.dir, "dist"));
    // plant() breaks build/ too: what the copy's scripts would build again (scripts/ensure-built.mjs) is there already.
    const stamp = join(this.dir, "node_modules/.cache/holdfast-built");
    mkdirSync(join(this.dir, "node_modules/.cache"));
    writeFileSync(stamp, "");
    utimesSync(stamp, NEVER_STALE, NEVER_STALE);
    this.lean = lean ? join(this.dir, "lean") : undefined;
    if (lean) buildLean(this.dir, this.lean);
    this.config = join(this.dir, "vitest.mutate.config.mjs");
    writeFileSync(
      this.config,
      `import config from "./vitest.config.ts";
       export default { ...config, test: { ...config.test, globalSetup: [], maxWorkers: 1, isolate: false, bail: 1,
         experimental: { ...config.test.experimental, fsModuleCache: true, fsModuleCachePath: "node_modules/.cache/modules" } } };`,
    );
  }

  /** Breaks one file, in src/ and in build/, until mend(). Returns why that cannot be built, if so. */
  plant(file, text) {
    const write = (path, contents) => {
      const whole = join(this.dir, path);
      const known = this.#changed.get(whole);
      const before = known === undefined ? existsSync(whole) && readFileSync(whole) : known.before;
      this.#changed.set(whole, { before, now: contents });
      writeFileSync(whole, contents);
    };
    write(file, text);
    let refused;
    if (file.endsWith(".lua")) refused = this.#buildLua(write);
    else this.#emit(file, text, write);
    return { refused };
  }

  mend() {
    this.#put("before");
    this.#changed.clear();
  }

  /** Without the bug meanwhile. */
  async unbroken(work) {
    this.#put("before");
    try {
      return await work();
    } finally {
      this.#put("now");
    }
  }

  #put(which) {
    for (const [path, contents] of this.#changed) {
      if (contents[which] === false) rmSync(path, { force: true });
      else writeFileSync(path, contents[which]);
    }
  }

  /** Runs test files one after the other until one is red: `undefined` where all are green. */
  async test(files, limitMs, { without, mostMs = new Map() }) {
    const report = join(this.dir, "report.json");
    const log = join(this.dir, "runner.log");
    rmSync(report, { force: true });
    const { args, read } = this.lean ? this.#leanly(files, report, without, mostMs) : this.#byVitest(files, report);
    // Most of what one mutant costs is starting the runner: whatever was compiled once is kept, by its contents.
    const env = { ...process.env, NODE_COMPILE_CACHE: join(this.dir, "node_modules/.cache/compiled") };
    delete env.NODE_EXTRA_CA_CERTS;
    const output = openSync(log, "w");
    const child = spawn(process.execPath, args, {
      cwd: this.lean ?? this.dir,
      env,
      stdio: ["ignore", output, output],
      detached: true,
    });
    closeSync(output);
    this.running = child.pid;
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      endGroup(child.pid);
    }, limitMs);
    const code = await new Promise((resolve) => child.once("close", resolve));
    clearTimeout(timer);
    // Whatever a broken program started and left behind.
    endGroup(child.pid);
    this.running = undefined;
    const { times, red } = read(existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {});
    if (late) return { red: { test: "(time limit)", message: "" }, times };
    if (code === 0) return { red: undefined, times };
    // No test is red, but there was an uncaught error; or the runner itself had no time.
    return { red: red ?? { test: "(runner)", message: readFileSync(log, "utf8").slice(-1000) }, times };
  }

  #leanly(files, report, without, mostMs) {
    const inLean = (file) => join(this.lean, file.replace(/\.ts$/, ".js"));
    const named = (path) => path.slice(this.lean.length + 1).replace(/\.js$/, ".ts");
    const order = {
      report,
      without: without.join("|"),
      mostMs: Object.fromEntries(
        files.filter((file) => mostMs.has(file)).map((file) => [inLean(file), mostMs.get(file)]),
      ),
    };
    const run = fileURLToPath(new URL("./lean-run.mjs", import.meta.url));
    return {
      args: [run, JSON.stringify(order), ...files.map(inLean)],
      read: ({ times = {}, red }) => ({
        times: new Map(Object.entries(times).map(([path, ms]) => [named(path), ms])),
        red: red && { test: `${named(red.file)}: ${red.test}`, message: red.message.slice(0, 1000) },
      }),
    };
  }

  #byVitest(files, report) {
    const vitest = join(this.dir, "node_modules/vitest/vitest.mjs");
    const named = ({ name }) => name.slice(this.dir.length + 1);
    return {
      args: [vitest, "run", "--config", this.config, "--reporter=json", `--outputFile=${report}`, ...files],
      read: ({ testResults = [] }) => {
        const times = new Map(testResults.map((each) => [named(each), each.endTime - each.startTime]));
        const failed = testResults.find((each) => each.status === "failed");
        if (failed === undefined) return { times };
        const test = failed.assertionResults.find((each) => each.status === "failed");
        const message = test?.failureMessages?.[0] ?? failed.message ?? "";
        return {
          times,
          red: { test: `${named(failed)}: ${test?.fullName ?? "(not loaded)"}`, message: message.slice(0, 1000) },
        };
      },
    };
  }

  remove() {
    if (this.running !== undefined) endGroup(this.running);
    rmSync(this.dir, { recursive: true, force: true });
  }

  #emit(file, text, write) {
    if (!/^src\/.*\.ts$/.test(file)) return;
    const code = toJavaScript(file, text);
    const path = file.replace(/\.ts$/, ".js");
    write(path.replace(/^src\//, "build/"), code);
    if (this.lean) write(`lean/${path}`, code);
  }

  #buildLua(write) {
    const folders = ["src/backends/redis", "src/fence"];
    const modules = folders.flatMap((folder) =>
      readdirSync(join(this.dir, folder, "generated")).map((name) => `${folder}/generated/${name}`),
    );
    for (const path of modules) write(path, readFileSync(join(this.dir, path)));
    try {
      execFileSync(process.execPath, [join(this.dir, "scripts/build-lua.mjs")], { stdio: "pipe" });
    } catch (error) {
      return String(error.stderr);
    }
    for (const path of modules) {
      const text = readFileSync(join(this.dir, path), "utf8");
      write(path, text);
      this.#emit(path, text, write);
    }
    return undefined;
  }
}

/** The group is this script's own child and what it started. */
function endGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // None is left.
  }
}
