// Installs the package, as npm would get it, beside the oldest and the newest version of each framework, and has it answer requests there. Beside
// a version that is not supported the core must load, and the adapter must say what to install.
//
//   npm run test:frameworks
//   npm run test:frameworks -- croner bullmq nestjs
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FRAMEWORKS } from "../build/adapters/supported.js";
import { startRedis } from "../build/lab/servers/redis.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const UNSUPPORTED = {
  express: "3.21.2",
  fastify: "4.29.1",
  hono: "3.12.12",
  "node-cron": "4.5.0",
  croner: "10.0.1",
  "@nestjs/schedule": "4.1.2",
  bullmq: "5.81.5",
  "@nestjs/core": "9.4.3",
};
const JOBS = new Set(["node-cron", "croner", "@nestjs/schedule", "bullmq"]);
/** What a framework wants beside it. */
const nest = (major) => [`@nestjs/common@${major}`, `@nestjs/core@${major}`, "reflect-metadata@0.2", "rxjs@7"];
const BESIDE = {
  "@nestjs/schedule": (version) => nest({ "4.1.2": 10, latest: 12 }[version] ?? 11),
  bullmq: () => ["ioredis@5"],
};
const wanted = process.argv.slice(2);
const redis = await startRedis();
const folder = mkdtempSync(join(tmpdir(), "holdfast-frameworks-"));
let failed = false;
try {
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: ROOT, stdio: "inherit" });
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  for (const [framework, oldest] of Object.entries(FRAMEWORKS)) {
    const adapter = framework === "@nestjs/core" ? "nestjs" : framework;
    if (wanted.length > 0 && !wanted.includes(adapter)) continue;
    for (const version of [...oldest, "latest"]) check(adapter, framework, version, join(folder, tarball), "works");
    check(adapter, framework, UNSUPPORTED[framework], join(folder, tarball), "refused");
  }
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true });
}
if (failed) process.exitCode = 1;

function check(adapter, framework, version, tarball, expected) {
  const home = join(folder, `${adapter.replace("/", "-")}-${version}`);
  mkdirSync(home);
  writeFileSync(join(home, "package.json"), JSON.stringify({ type: "module", private: true }));
  const isNest = adapter === "nestjs";
  const own = isNest ? nestPackages(version) : [`${framework}@${version}`, ...(BESIDE[framework]?.(version) ?? [])];
  // The oldest of one package beside the oldest of another: their own peers are not what is tested here.
  const peers = isNest ? ["--legacy-peer-deps"] : [];
  execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", ...peers, tarball, ...own], { cwd: home });
  const smoke = JOBS.has(framework) ? "scripts/load-jobs/smoke.mjs" : "scripts/load-http/smoke.mjs";
  copyFileSync(join(ROOT, smoke), join(home, "smoke.mjs"));
  const programs = isNest && expected === "works" ? compiled(home) : ["smoke.mjs"];
  const results = programs.map((program) =>
    spawnSync(process.execPath, [program, framework, expected], {
      cwd: home,
      encoding: "utf8",
      env: { ...process.env, REDIS_URL: redis.url },
      timeout: 120_000,
    }),
  );
  const ok = results.every(({ status }) => status === 0);
  failed ||= !ok;
  const said = results.map(({ stdout, stderr }) => (ok ? stdout.trim() : `${stdout}${stderr}`)).join(", ");
  console.log(`${framework} ${version}, ${expected}: ${ok ? said : `FAILED\n${said}`}`);
}

/** What an application has beside it, of the same age. */
function nestPackages(version) {
  const major = version.split(".")[0];
  const terminus = { 9: "9.2.2", 10: "10.0.0", 11: "11.0.0", 12: "12.0.0" }[major] ?? "latest";
  return [
    ...["common", "core", "platform-express"].map((name) => `@nestjs/${name}@${version}`),
    `@nestjs/terminus@${terminus}`,
    `reflect-metadata@${major < 11 ? "0.1.13" : "0.2.2"}`,
    "rxjs@7.8.2",
  ];
}

/** By our compiler against its types, as ESM and as CommonJS. */
function compiled(home) {
  const options = {
    target: "es2022",
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    skipLibCheck: true,
    types: ["node"],
    typeRoots: [join(ROOT, "node_modules/@types")],
    outDir: "dist",
  };
  for (const ending of ["mts", "cts"])
    copyFileSync(join(ROOT, "scripts/load-http/smoke-nestjs.ts"), join(home, `smoke.${ending}`));
  writeFileSync(join(home, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["smoke.*ts"] }));
  const { status, stdout } = spawnSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", home], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`the types are wrong in ${home}:\n${stdout}`);
  return ["dist/smoke.mjs", "dist/smoke.cjs"];
}
