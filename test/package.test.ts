/** What is published, and what it is built with: nothing else travels, and everything is what it was when it was chosen. */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { CLIENTS } from "../src/backends/redis/open.ts";
import { installedVersion, whyUnsupported } from "../src/contract/peer-version.ts";
import { DIST, ROOT } from "./dist.ts";

const run = promisify(execFile);

interface Packed {
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/** Files that a module names, to import or to start: whatever begins with a dot and ends as a module does. */
const named = (text: string): readonly string[] =>
  [...text.matchAll(/["'`](\.{1,2}\/[\w./-]+\.(?:js|ts))["'`]/g)].map(([, target]) => target as string);

const { entriesOf } = (await import(join(ROOT, "scripts/build-dist.mjs"))) as {
  readonly entriesOf: (root: string) => ReadonlySet<string>;
};

/** It was 1,113,000 with comments and with declarations that cannot be imported, and 740,000 with a file for each module. */
const PACKED_MAX = 665_000;

test("the package holds dist, README, CHANGELOG, LICENSE and SECURITY, and nothing else", async () => {
  // Without scripts: dist/ has been built before all tests.
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: ROOT });
  const [packed] = JSON.parse(stdout) as [Packed];
  const paths = packed.files.map(({ path }) => path);
  const besides = paths.filter((path) => !/^dist\/.+\.(?:js|d\.ts)$/.test(path));
  expect(besides.toSorted()).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "package.json"]);
  expect(paths).toContain("dist/index.js");
  expect(paths).toContain("dist/cli/main.js");
  // What stays at home is named by nothing that travels. Declarations name each other with the ending of the sources.
  const travels = new Set(paths.map((path) => path.replace(/\.d\.ts$/, ".ts")));
  const lost = paths
    .filter((path) => path.startsWith("dist/"))
    .flatMap((path) =>
      named(readFileSync(join(ROOT, path), "utf8"))
        .map((target) => join(dirname(path), target))
        .filter((target) => target.startsWith("dist/") && !travels.has(target))
        .map((target) => `${path} names ${target}`),
    );
  expect(lost).toEqual([]);
  expect(packed.size).toBeLessThan(PACKED_MAX);
  // npm itself needs long to start on a busy machine.
}, 180_000);

test("every module is in one file of the package, so that an error is the same class whichever subpath it comes from", () => {
  const places = new Map<string, string[]>();
  for (const path of readdirSync(DIST, { recursive: true, encoding: "utf8" })) {
    // The warden is a process of its own, which shares nothing.
    if (!path.endsWith(".js") || path === "cli/run/warden-process.js") continue;
    for (const [, module = ""] of readFileSync(join(DIST, path), "utf8").matchAll(/^\/\/ build\/(\S+)$/gm)) {
      places.set(module, [...(places.get(module) ?? []), path]);
    }
  }
  expect(places.get("contract/errors.js")).toEqual(["chunks/contract.js"]);
  expect(places.size).toBeGreaterThan(400);
  expect([...places].filter(([, files]) => files.length > 1)).toEqual([]);
});

test("an error of a backend is of the class that `holdfast` exports, and names are as in the sources", async () => {
  const program = `
    import { connect, createLocks, LockBackendError, LockTimeoutError } from "holdfast";
    import { file } from "holdfast/file";
    import { memory } from "holdfast/memory";
    const late = createLocks(memory());
    await late.acquire("a");
    const errors = [
      await late.acquire("a", { wait: 0 }).catch((error) => error),
      await connect("file:///dev/null/locks").then((locks) => locks.acquire("a")).catch((error) => error),
      await createLocks(file({ dir: "/dev/null/locks" })).acquire("a").catch((error) => error),
    ];
    const classes = [LockTimeoutError, LockBackendError, LockBackendError];
    const facts = errors.map((error, i) => [error instanceof classes[i], error.constructor.name, error.name]);
    console.log(JSON.stringify([facts, file({ dir: "/tmp" }).constructor.name, errors[1].stack]));
    process.exit();`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program], { cwd: ROOT });
  const [facts, name, stack] = JSON.parse(stdout) as [unknown, string, string];
  expect(facts).toEqual([
    [true, "LockTimeoutError", "LockTimeoutError"],
    [true, "LockBackendError", "LockBackendError"],
    [true, "LockBackendError", "LockBackendError"],
  ]);
  expect(name).toBe("FileBackend");
  expect(stack).toMatch(/ at .*\w{5,}.* \(.*dist\/chunks\/file\.js:\d+:\d+\)/);
});

test("a subpath has the names that its sources have, and no others", async () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, { readonly default?: string }>>;
  };
  const files = Object.values(exports).flatMap((target) => target.default?.replace("./dist/", "") ?? []);
  expect(files.length).toBeGreaterThan(30);
  const program = `
    const namesIn = async (dir) => {
      const modules = ${JSON.stringify(files)}.map((file) => import(dir + file));
      return (await Promise.all(modules)).map((module) => Object.keys(module));
    };
    console.log(JSON.stringify([await namesIn("./build/"), await namesIn("./dist/")]));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program], { cwd: ROOT });
  const [sources, shipped] = JSON.parse(stdout) as [readonly string[][], readonly string[][]];
  expect(sources[0]).toContain("createLocks");
  expect(shipped).toEqual(sources);
});

test("what package.json names is there, and what is started or loaded by its path", () => {
  const entries = [...entriesOf(ROOT)];
  const started = [
    "cli/run/warden-process",
    "core/renew-thread-worker",
    "lab/clients/client-process",
    "backends/redis/open",
  ];
  for (const path of started) expect(entries).toContain(path);
  expect(entries.filter((path) => !existsSync(join(DIST, `${path}.js`)))).toEqual([]);
  // As bundlers know it: a file beside is named in one text, and it is there.
  const beside = readdirSync(DIST, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".js"))
    .flatMap((path) =>
      [...readFileSync(join(DIST, path), "utf8").matchAll(/new URL\("([^"]+)", (?:import\.meta\.url|here)\)/g)].map(
        ([, target = ""]) => join(dirname(path), target),
      ),
    );
  expect(beside).toContain("core/renew-thread-worker.js");
  expect(beside).toContain("backends/redis/open.js");
  const inRepository = "../bench/lab/other-libraries.mjs";
  expect(beside.filter((path) => path !== inRepository && !existsSync(join(DIST, path)))).toEqual([]);
});

test("nothing of ours runs on the machine of one who installs the package", () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  // npm runs these in a package that it installs; `prepare` in one that is not from the registry. It warns of each.
  const atInstall = ["preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare"];
  expect(atInstall.filter((name) => name in scripts)).toEqual([]);
  // What builds in a clone, after `npm ci`, and before packing.
  expect(scripts).toMatchObject({ dependencies: scripts["prepack"], prepack: "npm run --silent build" });
});

interface LockEntry {
  readonly integrity?: string;
  readonly link?: boolean;
  readonly resolved?: string;
}

test("every entry of the lock file has the digest of what is installed", () => {
  const { lockfileVersion, packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    readonly lockfileVersion: number;
    readonly packages: Readonly<Record<string, LockEntry>>;
  };
  expect(lockfileVersion).toBe(3);
  const entries = Object.entries(packages).filter(([path]) => path !== "");
  expect(entries.length).toBeGreaterThan(100);
  const unchecked = entries.filter(([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ""));
  expect(unchecked.map(([path]) => path)).toEqual([]);
  expect(entries.filter(([, { link }]) => link === true)).toEqual([]);
  // Digests say what it is; where it comes from is up to the user who installs it.
  expect(entries.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
});

/** Whether `engines` lets Node 20.19 in, for the ranges that packages use: `*`, `>=18.2`, `^20.19.0`, `20`, and `||` between them. */
function admitsOldestNode(range: string): boolean {
  return range.split("||").some((part) => {
    const [all, sign, major = "0", minor = "0"] = /^\s*(>=|\^|)\s*(\d+)(?:\.(\d+|\*|x))?/.exec(part) ?? [];
    if (all === undefined) return part.trim() === "*";
    const from = Number(major) * 1000 + (Number(minor) || 0);
    return 20_019 >= from && (sign === ">=" || Number(major) === 20);
  });
}

test("nothing that `npm ci` installs asks for a later Node than ours, so that it prints no warning", () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, { readonly engines?: { readonly node?: string } }>>;
  };
  const asking = Object.entries(packages).filter(([, { engines }]) => !admitsOldestNode(engines?.node ?? "*"));
  expect(asking.map(([path]) => path)).toEqual([]);
  // As cookie@2 did, which comes with light-my-request 6.8.
  for (const range of [">=22", "^22.12.0 || >=24", ">=20.20", "21"]) expect(admitsOldestNode(range)).toBe(false);
});

test("the README says of every page that is not in the package where it is", () => {
  const text = readFileSync(join(ROOT, "README.md"), "utf8");
  const links = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, target]) => target as string);
  const outside = links.filter((target) => !/^(?:https?:|CHANGELOG\.md|LICENSE|SECURITY\.md|README\.md)/.test(target));
  expect(outside.length).toBeGreaterThan(0);
  expect(text).toContain("in the repository, not in the package");
});

test("the change log begins with the next version, and has the one that is published", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { readonly version: string };
  const text = readFileSync(join(ROOT, "CHANGELOG.md"), "utf8");
  const headings = [...text.matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(([, number]) => number as string);
  expect(headings).toContain(version);
  const [newest] = headings as [string];
  expect(newest.localeCompare(version, "en", { numeric: true })).toBeGreaterThanOrEqual(0);
  // A section without a line says that a habit was forgotten, not that nothing changed.
  for (const section of text.split(/^## /m).slice(1)) expect(section).toMatch(/^- /m);
});

describe("optional peers", () => {
  test("the ranges of package.json are those that are checked when a peer is loaded", () => {
    const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      readonly peerDependencies: Readonly<Record<string, string>>;
    };
    for (const [peer, oldest] of Object.entries(CLIENTS)) {
      expect(peerDependencies[peer]).toBe(oldest.map((least) => `^${least}`).join(" || "));
      expect(whyUnsupported(peer, installedVersion(peer, import.meta.url), oldest)).toBeUndefined();
      expect(installedVersion(peer, import.meta.url)).toMatch(/^\d+\.\d+\.\d+/);
    }
  });

  test.each([
    ["5.4.0", true],
    ["5.3.9", false],
    ["5.11.1", true],
    ["4.99.0", false],
    ["6.0.0", true],
    ["6.0.1-beta.2", true],
    ["7.0.0", false],
    ["15.4.0", false],
  ])("ioredis %s: supported %s", (version, isSupported) => {
    const why = whyUnsupported("ioredis", version, CLIENTS.ioredis);
    if (isSupported) expect(why).toBeUndefined();
    else
      expect(why).toBe(
        `ioredis ${version} is installed, but Holdfast supports ^5.4.0 and ^6.0.0: npm install ioredis@6`,
      );
  });

  test.each([
    ["6.2.1", true],
    ["6.2.0", false],
    ["6.3.0", true],
    ["5.12.1", false],
  ])("redis %s: supported %s", (version, isSupported) => {
    const why = whyUnsupported("redis", version, CLIENTS.redis);
    expect(why).toBe(
      isSupported ? undefined : `redis ${version} is installed, but Holdfast supports ^6.2.1: npm install redis@6`,
    );
  });

  test("S180: a version that is not supported is not loaded, nor are its clients taken: the other library is, or the error says what to install", async () => {
    const root = mkdtempSync(join(tmpdir(), "holdfast-peers-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const install = (name: string, version: string, says: string): void => {
      const folder = join(root, "node_modules", name);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "package.json"), JSON.stringify({ name, version, main: "index.js" }));
      writeFileSync(join(folder, "index.js"), `throw new Error(${JSON.stringify(says)});`);
    };
    cpSync(join(ROOT, "dist"), join(root, "node_modules/holdfast/dist"), { recursive: true });
    cpSync(join(ROOT, "package.json"), join(root, "node_modules/holdfast/package.json"));
    const program =
      'import { connect } from "holdfast"; connect("redis://127.0.0.1:1").catch((e) => console.log(JSON.stringify([e.code, e.fatal, e.message])));';
    const outputOf = async (text: string): Promise<string> =>
      (await run(process.execPath, ["--input-type=module", "-e", text], { cwd: root })).stdout;
    const opened = async (): Promise<unknown> => JSON.parse(await outputOf(program));

    install("ioredis", "4.28.5", "ioredis 4 was loaded");
    const message =
      "Redis by URL needs a client library: ioredis 4.28.5 is installed, but Holdfast supports ^5.4.0 and ^6.0.0: npm install ioredis@6.";
    expect(await opened()).toEqual(["ERR_LOCK_BACKEND", true, message]);
    // A client that is given is not loaded by us: what is installed says its version, where the client itself does not.
    const given = `import { redis } from "holdfast/redis"; import { writeFenced } from "holdfast/fence/redis";
      const client = { _keyPrefix: "", isOpen: true, isReady: true, on() {}, sendCommand() {}, evalSha: async () => [1, "1", []] };
      try { redis(client); console.log("taken"); } catch (error) { console.log(error.code, error.message); }
      await writeFenced(client, { name: "a", fence: 1n }, []).catch((error) => console.log(error.code, error.message));`;
    expect(await outputOf(given)).toMatch(/^taken\n/);
    for (const [name, version] of [
      ["@redis/client", "6.1.0"],
      ["redis", "6.2.0"],
    ] as const) {
      install(name, version, `${name} ${version} was loaded`);
      const refused = `ERR_LOCK_ARGUMENT Expected a client of node-redis 6.2.1 or later, but ${name} ${version} is installed. `;
      const said = (await outputOf(given)).split("\n").slice(0, -1);
      expect(said).toEqual([expect.stringContaining(refused), expect.stringContaining(refused)]);
    }
    expect(await opened()).toEqual([
      "ERR_LOCK_BACKEND",
      true,
      `${message.slice(0, -1)}; redis 6.2.0 is installed, but Holdfast supports ^6.2.1: npm install redis@6.`,
    ]);
    install("redis", "6.2.1", "redis 6 was loaded");
    expect(await opened()).toEqual([null, null, "redis 6 was loaded"]);
    expect(await outputOf(given)).toMatch(/^taken\n/);
  }, 60_000);
});
