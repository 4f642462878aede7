/** One-shot watches: who watches which node, and how they are restored at the server after a reconnect. */
import type { Writer } from "./codec.ts";
import type { WatchEvent } from "./protocol.ts";

/** `data`: on a node that exists. `exists`: on one that does not yet. `children`: on the list of its children. */
export type WatchKind = "data" | "exists" | "children";

export type Watcher = (event: WatchEvent) => void;

/** Which kinds of watches an event fires. */
const FIRES: Readonly<Record<WatchEvent["type"], readonly WatchKind[]>> = {
  created: ["data", "exists"],
  changed: ["data", "exists"],
  deleted: ["data", "exists", "children"],
  children: ["children"],
  session: ["data", "exists", "children"],
};

/** Well below the 1 MB that a server takes in one request. */
const CHUNK_BYTES = 128 * 1024;

type Lists = Record<WatchKind, string[]>;

export class Watches {
  readonly #kinds: Record<WatchKind, Map<string, Set<Watcher>>> = {
    data: new Map(),
    exists: new Map(),
    children: new Map(),
  };

  add(kind: WatchKind, path: string, watcher: Watcher): void {
    const watchers = this.#kinds[kind].get(path);
    if (watchers === undefined) this.#kinds[kind].set(path, new Set([watcher]));
    else watchers.add(watcher);
  }

  /** Forgets a watcher. The server may still send the event; it is dropped. */
  remove(path: string, watcher: Watcher): void {
    for (const byPath of Object.values(this.#kinds)) {
      const watchers = byPath.get(path);
      if (watchers?.delete(watcher) === true && watchers.size === 0) byPath.delete(path);
    }
  }

  fire(event: WatchEvent): void {
    for (const kind of FIRES[event.type]) {
      const watchers = this.#kinds[kind].get(event.path);
      this.#kinds[kind].delete(event.path);
      for (const watcher of watchers ?? []) watcher(event);
    }
  }

  /** Calls every watcher: its watch ended with the session. */
  endAll(): void {
    const paths = new Set(Object.values(this.#kinds).flatMap((byPath) => [...byPath.keys()]));
    for (const path of paths) this.fire({ type: "session", path });
  }

  /** The bodies of the requests that restore all watches; the server answers at once with what changed since `zxid`. */
  restore(zxid: bigint): ((writer: Writer) => void)[] {
    const chunks: Lists[] = [];
    let bytes = Infinity;
    for (const kind of ["data", "exists", "children"] as const) {
      for (const path of this.#kinds[kind].keys()) {
        bytes += 4 + Buffer.byteLength(path);
        if (bytes > CHUNK_BYTES) {
          chunks.push({ data: [], exists: [], children: [] });
          bytes = 4 + Buffer.byteLength(path);
        }
        chunks.at(-1)?.[kind].push(path);
      }
    }
    return chunks.map(
      ({ data, exists, children }) =>
        (writer) =>
          void writer.long(zxid).strings(data).strings(exists).strings(children),
    );
  }
}
