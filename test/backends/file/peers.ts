/** A scratch directory, backends of this process and of others in it, and claims: gone after each test. */
import { type ChildProcess, fork, type ForkOptions } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Claim, Granted, Refused } from "../../../src/contract/backend.ts";
import { type FileBackend, file, type FileOptions } from "../../../src/backends/file/index.ts";
import { withChecksum, parseChecked } from "../../../src/backends/file/checked-text.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { BUNDLE } from "../../dist.ts";

export { granted } from "../../../src/testing/attempts.ts";
export { eventually };

export interface PeerError {
  readonly name: string;
  readonly message: string;
  readonly code: string;
  readonly fatal: boolean | undefined;
}

/** A backend in another process. */
export class Peer {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly #pending = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>();
  #calls = 0;

  private constructor(child: ChildProcess) {
    this.process = child;
    this.pid = child.pid ?? 0;
    child.on("message", (message: { id: number; answer?: unknown; error?: PeerError }) => {
      const waiting = this.#pending.get(message.id);
      this.#pending.delete(message.id);
      if (message.error !== undefined) waiting?.reject(message.error);
      else waiting?.resolve(message.answer);
    });
  }

  static async start(dir: string, options: object = {}, fork_: ForkOptions = {}): Promise<Peer> {
    const program = join(import.meta.dirname, "peer-process.mjs");
    const args = [BUNDLE, dir, JSON.stringify(options)];
    const peer = new Peer(fork(program, args, { serialization: "advanced", ...fork_ }));
    await new Promise((resolve, reject) => {
      peer.#pending.set(0, { resolve, reject });
      peer.process.once("exit", () => reject(new Error("the peer ended before it was ready")));
    });
    return peer;
  }

  call<T = unknown>(call: string, ...args: readonly unknown[]): Promise<T> {
    const id = ++this.#calls;
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { resolve: resolve as (value: unknown) => void, reject });
      // With a callback, a channel that has closed is this call's failure; without one it is an unexpected event.
      this.process.send({ id, call, args }, (error) => {
        if (error !== null) reject(error);
      });
    });
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.call("attempt", claim);
  }

  /** Makes the process itself end by SIGKILL, where `process` is only the program that started it. */
  async die(): Promise<void> {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.call("die").catch(() => {});
    await gone;
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await gone;
  }
}

export class Scratch {
  readonly dir: string = join(mkdtempSync(join(process.env["HOLDFAST_TEST_TMP"] ?? tmpdir(), "hf-")), "locks");
  readonly #peers: Peer[] = [];
  readonly #backends: FileBackend[] = [];

  open(options: FileOptions = {}): FileBackend {
    const backend = file({ dir: this.dir, ...options });
    this.#backends.push(backend);
    return backend;
  }

  async peer(options: object = {}, fork_: ForkOptions = {}): Promise<Peer> {
    const peer = await Peer.start(this.dir, options, fork_);
    this.#peers.push(peer);
    return peer;
  }

  /** A process in a mount namespace of its own, whose lock directory is a very small tmpfs. */
  confined(): Promise<Peer> {
    const parent = join(this.dir, "..");
    const mount = 'mount -t tmpfs -o size=256k,nr_inodes=120,mode=700 none "$0" && exec "$@"';
    const flags = process.getuid?.() === 0 ? ["--mount"] : ["--user", "--map-root-user", "--mount"];
    const execArgv = [...flags, "sh", "-c", mount, parent, process.execPath];
    // Where neither root nor user namespaces are there, this throws, and the test fails: the promise was not checked.
    return this.peer({}, { execPath: "unshare", execArgv });
  }

  async end(): Promise<void> {
    for (const peer of this.#peers) peer.process.kill("SIGCONT");
    await Promise.all(this.#peers.map((peer) => peer.kill()));
    await Promise.all(this.#backends.map((backend) => backend.close()));
    rmSync(join(this.dir, ".."), { recursive: true, force: true });
  }
}

/** Changes what a record says, in place and as if we had written it; its times stay. */
export function rewrite<T extends object>(path: string, change: (record: T) => object): void {
  const { mtime, atime } = statSync(path);
  writeFileSync(path, withChecksum(change(parseChecked(readFileSync(path, "utf8")) as T)));
  utimesSync(path, atime, mtime);
}

export function claim(change: Partial<Claim> = {}): Claim {
  return newClaim({ name: "a lock", renewed: process.env["HOLDFAST_TEST_RENEWED"] !== "no", ...change });
}

/** Attempts until granted, as the core does, but without watching. */
export async function grantedAtLast(
  backend: { attempt(claim: Claim): Promise<Granted | Refused> },
  wish: Claim,
): Promise<Granted> {
  return eventually("the lease is granted", async () => {
    const answer = await backend.attempt(wish);
    return answer.granted ? answer : undefined;
  });
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
