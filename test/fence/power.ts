/**
 * A file system in memory that loses power: what was not synced is there afterwards, or not, or in part. It stands in for
 * `node:fs/promises`, so the code under test is the shipped code. A rename within a directory happens or does
 * not; apart from that, every change of a directory since its last sync survives or is lost by itself, in any combination
 * that keeps the order of what was done to one name.
 */
import { basename, dirname } from "node:path";

interface Directory {
  readonly ino: number;
  live: Map<string, Node>;
  durable: Map<string, Node>;
  /** What was done since the last sync. */
  pending: { readonly name: string; readonly node: Node | undefined; readonly from?: string | undefined }[];
}

interface File {
  live: string;
  /** `undefined`: never synced. */
  durable: string | undefined;
}

type Node = Directory | File;

const isDirectory = (node: Node | undefined): node is Directory => node !== undefined && "pending" in node;
const failure = (code: string): Error => Object.assign(new Error(code), { code });

export class PowerSupply {
  #root: Directory = directory();
  #random: () => number;
  /** Called before each call, which waits for it: a process that is kept waiting. */
  gate: ((call: string) => Promise<void>) | undefined;
  /** Calls until the power goes. */
  #left = Infinity;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** The power goes before the n-th call from now on: nothing is answered any more. */
  cutAfter(calls: number): void {
    this.#left = calls;
  }

  /** What is found when the power is back. */
  restore(): void {
    this.gate = undefined;
    this.#root = this.#survivor(this.#root) as Directory;
    this.#left = Infinity;
  }

  #survivor(node: Node): Node {
    if (!isDirectory(node)) {
      if (node.durable === node.live) return { live: node.live, durable: node.live };
      // Not synced: nothing of it, all, or a part.
      const length = [0, node.live.length, Math.floor(this.#random() * node.live.length)][
        Math.floor(this.#random() * 3)
      ]!;
      const text = this.#random() < 0.3 ? (node.durable ?? "") : node.live.slice(0, length);
      return { live: text, durable: text };
    }
    const entries = new Map(node.durable);
    for (const { name, node: made, from } of node.pending) {
      if (this.#random() < 0.5) continue;
      if (from !== undefined) entries.delete(from);
      if (made === undefined) entries.delete(name);
      else entries.set(name, made);
    }
    const live = new Map([...entries].map(([name, child]) => [name, this.#survivor(child)]));
    return { ...directory(), live, durable: new Map(live) };
  }

  async #call(call: string): Promise<void> {
    await this.gate?.(call);
    // Others get their turn between any two calls.
    for (let turns = Math.floor(this.#random() * 4); turns >= 0; turns--) await Promise.resolve();
    if (this.#left-- <= 0) await new Promise(() => {});
  }

  #find(path: string): Node | undefined {
    let at: Node | undefined = this.#root;
    for (const name of path.split("/").filter((part) => part !== ""))
      at = isDirectory(at) ? at.live.get(name) : undefined;
    return at;
  }

  #parent(path: string): Directory {
    const parent = this.#find(dirname(path));
    if (!isDirectory(parent)) throw failure("ENOENT");
    return parent;
  }

  #enter(path: string, node: Node | undefined, from?: string): void {
    const parent = this.#parent(path);
    const name = basename(path);
    if (from !== undefined) parent.live.delete(from);
    if (node === undefined) parent.live.delete(name);
    else parent.live.set(name, node);
    parent.pending.push({ name, node, from });
  }

  readonly api = {
    mkdir: async (path: string): Promise<string | undefined> => {
      await this.#call("mkdir");
      let first: string | undefined;
      const parts = path.split("/").filter((part) => part !== "");
      for (let depth = 1; depth <= parts.length; depth++) {
        const at = `/${parts.slice(0, depth).join("/")}`;
        if (this.#find(at) !== undefined) continue;
        this.#enter(at, directory());
        first ??= at;
      }
      return first;
    },
    open: async (path: string, flags: string | number): Promise<{ sync(): Promise<void>; close(): Promise<void> }> => {
      await this.#call("open");
      if (flags !== "r" && this.#find(path) === undefined) this.#enter(path, { live: "", durable: "" });
      const node = this.#find(path);
      if (node === undefined) throw failure("ENOENT");
      return {
        sync: async () => {
          await this.#call("sync");
          if (!isDirectory(node)) node.durable = node.live;
          else {
            node.durable = new Map(node.live);
            node.pending = [];
          }
        },
        close: async () => {},
      };
    },
    readdir: async (path: string): Promise<{ name: string; isFile(): boolean }[]> => {
      await this.#call("readdir");
      const node = this.#find(path);
      if (!isDirectory(node)) throw failure("ENOENT");
      return [...node.live].map(([name, child]) => ({ name, isFile: () => !isDirectory(child) }));
    },
    stat: async (path: string): Promise<{ ino: number }> => {
      await this.#call("stat");
      const node = this.#find(path);
      if (!isDirectory(node)) throw failure("ENOENT");
      return node;
    },
    rename: async (from: string, to: string): Promise<void> => {
      await this.#call("rename");
      const node = this.#find(from);
      if (node === undefined) throw failure("ENOENT");
      this.#enter(to, node, basename(from));
    },
    unlink: async (path: string): Promise<void> => {
      await this.#call("unlink");
      if (this.#find(path) === undefined) throw failure("ENOENT");
      this.#enter(path, undefined);
    },
    writeFile: async (path: string, data: string, options?: { readonly flush?: boolean }): Promise<void> => {
      await this.#call("writeFile");
      const file: File = { live: "", durable: undefined };
      this.#enter(path, file);
      await this.#call("writeFile");
      file.live = String(data);
      if (options?.flush !== true) return;
      await this.#call("writeFile");
      file.durable = file.live;
    },
    readFile: async (path: string): Promise<Buffer> => {
      await this.#call("readFile");
      const node = this.#find(path);
      if (node === undefined || isDirectory(node)) throw failure("ENOENT");
      return Buffer.from(node.live);
    },
  };
}

let inodes = 0;

function directory(): Directory {
  return { ino: ++inodes, live: new Map(), durable: new Map(), pending: [] };
}
