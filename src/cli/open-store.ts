/** Opens the store that a command works on, and closes it whatever happens. */
import { userInfo } from "node:os";

import type { Locks } from "../core/api.ts";
import type { Backend, Granted } from "../contract/backend.ts";
import { systemClock } from "../contract/clock.ts";
import { within } from "../contract/time-limit.ts";
import { onAbort } from "../contract/on-abort.ts";
import { openBackend } from "../connect.ts";
import type { FileBackend } from "../backends/file/index.ts";
import { createLocks } from "../core/locks.ts";
import { UsageError } from "./usage-error.ts";
import type { Flags } from "./flags.ts";
import type { Io } from "./io.ts";
import { ownHolder } from "./lock-flags.ts";
import { storeUrl } from "./url.ts";

/** How long closing may take before the process leaves without it: the store notices by itself. */
const CLOSE_MAX_MS = 2000;

export interface OpenStore {
  readonly locks: Locks;
  readonly backend: Backend;
  readonly url: string;
  /** True: what it does, it has done when it answers, or fails. Elsewhere a question without an answer may be heard later. */
  readonly immediate: boolean;
  /** Makes its leases live as long as these processes do, where the store can see processes. */
  tie(pids: readonly number[]): void;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Who acts, for people. @default host:pid */
  readonly holder?: string | undefined;
  /** True: leases go on without this process. `"tied"`: they go on while others do, to which they are to be tied. @default false */
  readonly outlives?: boolean | "tied" | undefined;
  /** Called when a lease is about to outlive this process, where the store supports it. Until it returns, the lease ends with us. */
  readonly beforeDetached?: ((lease: Granted) => void) | undefined;
  /** Ends the opening, which may take long: nothing has been asked of a store that is not open yet. */
  readonly stop?: AbortSignal | undefined;
}

/** The store's URL. */
export function urlOf(io: Io, flags: Flags): string {
  return storeUrl(io, flags).url;
}

export async function openStore(io: Io, flags: Flags, options: OpenOptions = {}): Promise<OpenStore> {
  const url = urlOf(io, flags);
  const backend = await unlessStopped(openFor(url, options), options.stop);
  const locks = createLocks(backend, { holder: options.holder ?? ownHolder() });
  const tie = (pids: readonly number[]): void => {
    if (isFile(backend)) for (const pid of pids) backend.alsoAlive(pid);
  };
  return { locks, backend, url, immediate: isFile(backend), tie, close: () => closeWithin(locks, CLOSE_MAX_MS) };
}

/** Rejects with the signal's reason. What opens later is closed. */
function unlessStopped(opening: Promise<Backend>, stop: AbortSignal | undefined): Promise<Backend> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(stop, (why) => {
      reject(why);
      void opening.then((backend) => backend.close()).catch(() => {});
    });
    void opening.finally(forget).then(resolve, reject);
  });
}

/** Only the embedded store sees processes; in all others a lease lives by its ttl, or ends with its process. */
async function openFor(url: string, { outlives = false, beforeDetached }: OpenOptions): Promise<Backend> {
  const backend = await openBackend(url);
  const trouble = outlives === false ? undefined : whyNot(backend, outlives);
  if (trouble !== undefined) {
    await backend.close();
    throw new UsageError(trouble);
  }
  if (outlives === false || !isFile(backend)) return backend;
  const { file } = await import("../backends/file/index.ts");
  if (outlives === true) return file({ dir: backend.directory, detached: true, beforeDetached });
  // Its lease files have the claims' ids from here on, so `renew` and `release` find them.
  void backend.renewer;
  return backend;
}

/** Why a lease of this backend cannot outlive this process, or live as long as another one. */
function whyNot(backend: Backend, outlives: true | "tied"): string | undefined {
  if (outlives === "tied" && !isFile(backend)) {
    return "--pid works with file: only; elsewhere a lease lives by its --ttl";
  }
  if (backend.ephemeral !== true) return undefined;
  return `a lease on ${backend.name} ends with the process that took it, so it cannot outlive this command: use \`holdfast run NAME -- COMMAND\`, which holds the lock while its command runs`;
}

/** By what it can do, so that the embedded store is loaded only when it is used. */
function isFile(backend: Backend): backend is FileBackend {
  return "alsoAlive" in backend;
}

/** Opens, does, closes. */
export async function withLocks<T>(
  io: Io,
  flags: Flags,
  work: (store: OpenStore) => Promise<T>,
  options: OpenOptions = {},
): Promise<T> {
  const store = await openStore(io, flags, options);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** The one lock that a command is about. */
export function nameOf(
  flags: Flags,
  command: string,
  { needsCommand = false }: { needsCommand?: boolean } = {},
): string {
  const [name, extra] = flags.positionals;
  if (name === undefined || name === "") throw new UsageError("which lock? Give its name", command);
  if (extra !== undefined) {
    const hint = needsCommand ? "; put the command after --" : "; quote a name that contains blanks";
    throw new UsageError(`${JSON.stringify(extra)} is one argument too many${hint}`, command);
  }
  if (!needsCommand && flags.rest !== undefined && flags.rest.length > 0) {
    throw new UsageError("nothing is run here, so nothing may follow --", command);
  }
  return name;
}

/** Who does something by hand: `ann@host`. */
export function operator(host: string): string {
  try {
    return `${userInfo().username}@${host}`;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}@${host}`;
  }
}

async function closeWithin(locks: Locks, ms: number): Promise<void> {
  // A store that cannot be reached any more does not learn that we leave.
  await within(
    systemClock,
    locks.close({ grace: 0, force: true }).catch(() => {}),
    ms,
  );
}
