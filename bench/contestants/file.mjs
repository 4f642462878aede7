/** Who takes part between the processes of one machine, without a server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, linkSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { built } from "../lib/holdfast.mjs";

/** As long as the log of a Holdfast lock: a name in a longer directory costs more. */
const LOG_ENTRIES = 64;

export async function holdfastIn(dir, { dist, defaults } = {}) {
  const files = ["index.js", "backends/file/index.js"];
  const [{ createLocks }, { file }] = await Promise.all(files.map((path) => built(path, dist)));
  const locks = createLocks(file({ dir }), defaults);
  return {
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
  };
}

export const contestants = {
  holdfast: { own: true, open: ({ dir }) => holdfastIn(join(dir, "holdfast")) },

  /** Another build, for before and after: only when HOLDFAST_BEFORE names its folder. Its files may look different. */
  "holdfast before": {
    own: true,
    open: ({ dir }) => {
      const own = join(dir, "before");
      mkdirSync(own, { mode: 0o700, recursive: true });
      return holdfastIn(own, { dist: process.env.HOLDFAST_BEFORE });
    },
  },

  "proper-lockfile": {
    package: "proper-lockfile",
    open: async ({ dir }) => {
      const { default: lockfile } = await import("proper-lockfile");
      // It tries once by default; these are the pauses of its README, without an end.
      const options = { realpath: false, retries: { forever: true, minTimeout: 10, maxTimeout: 100 } };
      return { acquire: (name) => lockfile.lock(join(dir, name), options), release: (release) => release() };
    },
  },

  "flock(1)": {
    version: "util-linux",
    open: async ({ dir }) => ({
      acquire: async (name) => {
        const path = join(dir, `${name}.flock`);
        writeFileSync(path, "", { flag: "a" });
        // cat echoes the byte as soon as the lock is ours, and ends, with the lock, when its input does.
        const child = spawn("flock", [path, "cat"], { stdio: ["pipe", "pipe", "inherit"] });
        child.stdin.on("error", () => {});
        child.stdin.write("x");
        await once(child.stdout, "data");
        return child;
      },
      release: async (child) => {
        child.stdin.end();
        await once(child, "exit");
      },
    }),
  },

  /**
   * The limit, not a lock: no waiting, no notification, no cleaning up after other processes. But a process that takes a
   * lock so that other processes can see it, and no two can have it, makes a name in a directory, and another to free it.
   */
  "raw link(2) ×2": { limit: true, version: "node:fs", open: async ({ dir }) => links(dir) },

  /**
   * The same in directories as deep as ours, with a check after each: is the first name still there, which a directory that is being
   * removed can lose, and does a claim wait?
   */
  "raw link(2) ×2 and two checks": {
    limit: true,
    version: "node:fs",
    open: async ({ dir }) => {
      const deep = join(dir, "checks", "l", `_${process.pid}`, "i".repeat(16));
      mkdirSync(deep, { recursive: true });
      const queue = join(dir, "checks", "q", `_${process.pid}`);
      return links(deep, existsSync, () => existsSync(queue));
    },
  },
};

/** `taken` is called with the name that takes the lock, `freed` after the one that frees it. */
function links(dir, taken = () => {}, freed = () => {}) {
  const [held, free] = [join(dir, `raw-held-${process.pid}`), join(dir, `raw-free-${process.pid}`)];
  for (const path of [held, free]) writeFileSync(path, "");
  let [log, entries] = ["", Infinity];
  return {
    cycle: async (name) => {
      if (entries >= LOG_ENTRIES) {
        if (log !== "") rmSync(log, { recursive: true });
        log = join(dir, `${name}-${process.hrtime.bigint()}`);
        mkdirSync(log);
        entries = 0;
      }
      const path = `${log}/${entries++}`;
      linkSync(held, path);
      taken(path);
      linkSync(free, `${log}/${entries++}`);
      freed();
    },
  };
}
