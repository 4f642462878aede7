/** Holdfast on ShedLock's table. It opens with `{ port }`. */
import { built } from "../lib/holdfast.mjs";

export const contestants = {
  holdfast: {
    own: true,
    open: async ({ port }) => {
      const { connect } = await built("index.js");
      const url = `postgres+shedlock://postgres:${process.env.HOLDFAST_LAB_PASSWORD}@127.0.0.1:${port}/postgres`;
      const locks = await connect(url);
      return {
        acquire: (name) => locks.acquire(name, { wait: Infinity }),
        release: (lease) => lease.release(),
        fence: (lease) => lease.fence,
      };
    },
  },
};
