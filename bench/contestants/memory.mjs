/** Holdfast over its memory backend: no store, no network. */
import { built } from "../lib/holdfast.mjs";

async function open(dist) {
  const files = ["index.js", "backends/memory/index.js"];
  const [{ createLocks }, { memory }] = await Promise.all(files.map((file) => built(file, dist)));
  const locks = createLocks(memory());
  return {
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
  };
}

export const contestants = {
  holdfast: { own: true, open: () => open() },

  /** Another build, for before and after: only when HOLDFAST_BEFORE names its folder. */
  "holdfast before": { own: true, open: () => open(process.env.HOLDFAST_BEFORE) },
};
