/** Holdfast over its memory backend: no store, no network. */
import { built } from "../lib/holdfast.mjs";

export const contestants = {
  holdfast: {
    own: true,
    open: async () => {
      const [{ createLocks }, { memory }] = await Promise.all([built("index.js"), built("backends/memory/index.js")]);
      const locks = createLocks(memory());
      return {
        acquire: (name) => locks.acquire(name, { wait: Infinity }),
        release: (lease) => lease.release(),
        fence: (lease) => lease.fence,
      };
    },
  },
};
