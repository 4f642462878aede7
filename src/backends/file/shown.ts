/** What is shown of locks to those who ask: of all whose names begin alike, or of one by its exact name. */
import type { LockState, Snapshot } from "../../contract/backend.ts";
import type { DirectoryPaths } from "./directory.ts";
import type { OpenDirectory } from "./directory-checks.ts";
import { namesOfLocks } from "./epochs.ts";
import { warnOfUnreadable } from "./errors.ts";
import type { ForcedRecords } from "./force-release.ts";
import type { Lock } from "./lock.ts";
import type { LockSnapshot } from "./query.ts";

/** Long work is cut into slices, so the event loop can run in between. */
const SLICE = 100;

export interface ShownOptions {
  readonly paths: DirectoryPaths;
  readonly forced: ForcedRecords;
  readonly directory: OpenDirectory;
  lock(name: string): Lock;
}

export class Shown {
  readonly #options: ShownOptions;

  constructor(options: ShownOptions) {
    this.#options = options;
  }

  async all(prefix: string): Promise<Snapshot> {
    const { paths, forced, directory } = this.#options;
    const names = directory.use(prefix, () => namesOfLocks(paths, prefix));
    const snapshots: LockSnapshot[] = [];
    for (const [at, name] of names.entries()) {
      if (at % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      const snapshot = this.#snapshot(name, prefix);
      if (snapshot !== undefined) snapshots.push(snapshot);
    }
    forced.keep(snapshots.flatMap((snapshot) => snapshot.forced));
    return {
      held: snapshots.flatMap(({ held }) => held),
      pending: snapshots.flatMap(({ pending }) => pending),
      forced: directory.use(prefix, () => forced.list(prefix)),
    };
  }

  one(name: string): LockState {
    const { directory, forced } = this.#options;
    return directory.use(name, () => {
      const { held, pending, forced: newest, outcome } = this.#options.lock(name).snapshot(true);
      return { held, pending, forced: forced.of(name, newest), ...(outcome && { outcome }) };
    });
  }

  /** `undefined`: the lock cannot be read. That is warned of once, and only a query for its own name fails. */
  #snapshot(name: string, prefix: string): LockSnapshot | undefined {
    const { directory } = this.#options;
    try {
      return directory.use(name, () => this.#options.lock(name).snapshot(false));
    } catch (error) {
      if (name === prefix || directory.isClosed) throw error;
      warnOfUnreadable(error);
      return undefined;
    }
  }
}
