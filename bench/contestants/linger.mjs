/** Holdfast over one Redis with and without `linger`, and the raw client. */
import { contestants as all, holdfastOver } from "./redis.mjs";

export const contestants = {
  "raw ioredis": all["raw ioredis"],
  holdfast: all.holdfast,
  "holdfast, linger": { own: true, open: (env) => holdfastOver(env, { defaults: { linger: env.linger } }) },
};
