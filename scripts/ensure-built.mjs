// Builds build/ and dist/ if any source is newer than the last build: for tests and scripts that run what is shipped.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildDist } from "./build-dist.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const stamp = join(root, "node_modules/.cache/holdfast-built");
const lock = `${stamp}.lock`;
/** A lock this old belongs to a build that died. */
const LOCK_MS = 120_000;

const newestSourceMs = () =>
  Math.max(
    ...readdirSync(join(root, "src"), { recursive: true }).map((path) => statSync(join(root, "src", path)).mtimeMs),
    ...["tsconfig.build.json", "package.json", "scripts/build-dist.mjs"].map(
      (path) => statSync(join(root, path)).mtimeMs,
    ),
  );

const isStale = () =>
  !existsSync(stamp) || !existsSync(join(root, "dist/index.js")) || statSync(stamp).mtimeMs < newestSourceMs();

/** mkdir is atomic: one build at a time, other processes wait for it. */
async function takeLock() {
  mkdirSync(join(root, "node_modules/.cache"), { recursive: true });
  for (;;) {
    try {
      return mkdirSync(lock);
    } catch {
      const ageMs = existsSync(lock) ? Date.now() - statSync(lock).mtimeMs : 0;
      if (ageMs > LOCK_MS) rmdirSync(lock);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

if (isStale()) {
  await takeLock();
  try {
    if (isStale()) {
      const startedMs = Date.now();
      execFileSync(process.execPath, [join(root, "scripts/build-console.mjs")], { cwd: root, stdio: "inherit" });
      const tsc = join(root, "node_modules/typescript/bin/tsc");
      try {
        execFileSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "pipe" });
      } catch (error) {
        // Types are checked by `npm run types`; what can be built is built all the same.
        console.error(`build/ was built with type errors:\n${error.stdout}`);
      }
      await buildDist(root);
      writeFileSync(stamp, "");
      // A source saved during the build counts as newer.
      utimesSync(stamp, startedMs / 1000, startedMs / 1000);
    }
  } finally {
    rmdirSync(lock);
  }
}
