/** connect(): locks by URL. The one place that knows which backend serves which scheme; each is imported when asked for. */
import type { Locks, LocksOptions } from "./api.ts";
import type { Backend } from "./backend.ts";
import { createLocks } from "./locks.ts";

interface Opener {
  openBackend(url: string): Promise<Backend>;
}

const SCHEMES: Readonly<Record<string, () => Promise<Opener>>> = {
  memory: () => import("./memory/open.ts"),
  file: () => import("./file/open.ts"),
  redis: () => import("./redis/open.ts"),
  rediss: () => import("./redis/open.ts"),
  "redis+sentinel": () => import("./redis/open.ts"),
  "rediss+sentinel": () => import("./redis/open.ts"),
  "redis-sentinel": () => import("./redis/open.ts"),
  "redis+cluster": () => import("./redis/open.ts"),
  "rediss+cluster": () => import("./redis/open.ts"),
  "redis+unix": () => import("./redis/open.ts"),
  redlock: () => import("./quorum/open.ts"),
  zk: () => import("./zookeeper/open.ts"),
  zookeeper: () => import("./zookeeper/open.ts"),
};

/** Opens a backend by URL. Without one: `HOLDFAST_URL`, else `file:`, the embedded backend of this machine. */
export async function openBackend(url: string = process.env["HOLDFAST_URL"] || "file:"): Promise<Backend> {
  if (typeof url !== "string") throw new TypeError(`Expected \`url\` to be a string, got ${typeof url}`);
  const scheme = /^([a-z][a-z0-9+-]*):/i.exec(url)?.[1]?.toLowerCase();
  const load = scheme === undefined ? undefined : SCHEMES[scheme];
  if (load === undefined) {
    // The rest of the URL may hold a password: only the scheme is repeated.
    const got = scheme === undefined ? "a text without a scheme" : `${scheme}:`;
    throw new TypeError(`Expected \`url\` to start with one of ${Object.keys(SCHEMES).join(":, ")}:, got ${got}`);
  }
  const opener = await load();
  return await opener.openBackend(url);
}

/** Opens locks by URL. Closing them closes the connection that was opened for them. */
export async function connect(url?: string, defaults?: LocksOptions): Promise<Locks> {
  return createLocks(await openBackend(url), defaults);
}
