// A copy of the repository in which code is broken and tests are run: the working tree is never touched.
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { transformSync } from "rolldown/utils";

/** What tests neither read nor run. */
const LEFT_OUT = new Set(["node_modules", ".git", "coverage"]);

export class Workshop {
  /** The group of processes that tests at this moment. */
  running;

  /** @param {string} root the repository, with dist/ built from src/ */
  constructor(root) {
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
    this.config = join(this.dir, "vitest.mutate.config.mjs");
    writeFileSync(
      this.config,
      `import config from "./vitest.config.ts";
       export default { ...config, test: { ...config.test, globalSetup: [], maxWorkers: 1, isolate: false, bail: 1 } };`,
    );
  }

  /** Breaks one file, in src/ and in dist/. Returns why that cannot be built, if so; and how to mend it. */
  plant(file, text) {
    const changed = new Map();
    const write = (path, contents) => {
      const whole = join(this.dir, path);
      changed.set(whole, existsSync(whole) ? readFileSync(whole) : undefined);
      writeFileSync(whole, contents);
    };
    const mend = () => {
      for (const [path, before] of changed) {
        if (before === undefined) rmSync(path);
        else writeFileSync(path, before);
      }
    };
    write(file, text);
    let refused;
    if (file.endsWith(".lua")) refused = this.#buildLua(write);
    else this.#emit(file, text, write);
    return { mend, refused };
  }

  /** Runs test files one after the other until one is red: `undefined` where all are green. */
  async test(files, limitMs) {
    const report = join(this.dir, "report.json");
    rmSync(report, { force: true });
    const args = [join(this.dir, "node_modules/vitest/vitest.mjs"), "run", "--config", this.config];
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: "" };
    delete env.NODE_EXTRA_CA_CERTS;
    const child = spawn(process.execPath, [...args, "--reporter=json", `--outputFile=${report}`, ...files], {
      cwd: this.dir,
      env,
      stdio: "ignore",
      detached: true,
    });
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
    const results = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")).testResults : [];
    const times = new Map(results.map((each) => [each.name.slice(this.dir.length + 1), each.endTime - each.startTime]));
    if (late) return { red: { test: "(time limit)", message: "" }, times };
    if (code === 0) return { red: undefined, times };
    const failed = results.find((each) => each.status === "failed");
    const test = failed?.assertionResults.find((each) => each.status === "failed");
    const name = failed ? `${failed.name.slice(this.dir.length + 1)}: ${test?.fullName ?? "(not loaded)"}` : "(runner)";
    return { red: { test: name, message: (test?.failureMessages?.[0] ?? failed?.message ?? "").slice(0, 300) }, times };
  }

  remove() {
    if (this.running !== undefined) endGroup(this.running);
    rmSync(this.dir, { recursive: true, force: true });
  }

  #emit(file, text, write) {
    if (!/^src\/.*\.ts$/.test(file)) return;
    const { code } = transformSync(file, text, { lang: "ts", target: "es2022" });
    write(
      file.replace(/^src\//, "dist/").replace(/\.ts$/, ".js"),
      code.replace(/(["'])(\.\.?\/[^"'\n]+)\.ts\1/g, "$1$2.js$1"),
    );
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
    for (const path of modules) this.#emit(path, readFileSync(join(this.dir, path), "utf8"), write);
    return undefined;
  }
}

/** The group is this script's own child and what it started. */
function endGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Nobody is left.
  }
}
