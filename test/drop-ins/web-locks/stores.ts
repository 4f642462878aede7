/** The stores over which Web Locks are tested: each makes clients that share it, as processes would. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memory } from "../../../src/backends/memory/index.ts";
import { memoryStore } from "../../../src/backends/memory/store.ts";
import { connect } from "../../../src/connect.ts";
import type { Locks, LocksOptions } from "../../../src/core/api.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { startRedis } from "../../../src/lab/servers/redis.ts";

export interface Store {
  /** For other processes. Absent: no other process can reach it. */
  readonly url?: string;
  readonly client: (options?: LocksOptions) => Promise<Locks>;
  readonly stop: () => Promise<void>;
}

export const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  async memory() {
    const store = memoryStore();
    return withClosing(
      (options) => Promise.resolve(createLocks(memory({ store }), options)),
      () => {},
    );
  },
  async file() {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-web-locks-"));
    return ofUrl(`file:${folder}`, () => rmSync(folder, { recursive: true, force: true }));
  },
  async redis() {
    const server = await startRedis();
    return ofUrl(server.url, () => server.stop());
  },
};

function ofUrl(url: string, stop: () => unknown): Store {
  return { ...withClosing((options) => connect(url, options), stop), url };
}

/** Callbacks that never end are ended by force: some rules have such. */
function withClosing(open: (options?: LocksOptions) => Promise<Locks>, stop: () => unknown): Store {
  const opened: Locks[] = [];
  return {
    async client(options) {
      const locks = await open(options);
      opened.push(locks);
      return locks;
    },
    async stop() {
      for (const locks of opened) await locks.close({ grace: 0, force: true });
      await stop();
    },
  };
}
