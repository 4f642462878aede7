/**
 * A ZooKeeper client: one session, and the operations on nodes.
 *
 * Requests are answered in the order in which they were sent, so `create` and `getChildren` may be sent together.
 * A rejection with `CONNECTIONLOSS` means that it is unknown whether the request was carried out.
 */
import type { ConnectionOptions } from "node:tls";
import { ArgumentError } from "../../../contract/argument-error.ts";
import { type Acl, type AclChoice, toAcls } from "./acl.ts";
import { hasCode } from "./errors.ts";
import * as operations from "./operations.ts";
import type { Children, Created, EphemeralCreated, MultiPart, MultiResult, NodeData } from "./operations.ts";
import type { CreateMode, Stat } from "./protocol.ts";
import { parseServers, type Resolve } from "./servers.ts";
import { Session, type SessionListener } from "./session.ts";
import type { Watcher, WatchKind } from "./watches.ts";

export interface ZooKeeperClientOptions {
  /** `"zk1:2181,zk2:2181"`, `"[::1]:2181"`. The port is 2181 by default. */
  readonly servers: string;
  /** All paths are below this one. @default "" */
  readonly chroot?: string | undefined;
  /** How long the ensemble keeps the session of a silent client. @default 40_000 */
  readonly timeoutMs?: number | undefined;
  /** Encrypts, with these options of `tls.connect()`; `true`: with Node's defaults. @default false */
  readonly tls?: ConnectionOptions | boolean | undefined;
  /** Digest authentication. */
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /** Which clients may touch the nodes that this client makes. @default "open": all that reach the ensemble */
  readonly acl?: AclChoice | undefined;
  readonly listener?: SessionListener | undefined;
  /** How names become addresses. @default the system's resolver */
  readonly resolve?: Resolve | undefined;
}

const EMPTY = new Uint8Array(0);
const ANY_VERSION = -1;
const MAKE_TRIES = 5;
const CLOSE_MS = 2000;

export class ZooKeeperClient {
  readonly #session: Session;
  readonly #chroot: string;
  readonly #acl: readonly Acl[];

  constructor(options: ZooKeeperClientOptions) {
    const { auth, tls } = options;
    this.#chroot = checkChroot(options.chroot ?? "");
    this.#acl = toAcls(options.acl ?? "open");
    this.#session = new Session({
      servers: parseServers(options.servers),
      timeoutMs: options.timeoutMs ?? 40_000,
      tls: tls === true ? {} : tls === false ? undefined : tls,
      digests: auth === undefined ? [] : [`${auth.user}:${auth.password}`],
      resolve: options.resolve,
      listener: options.listener ?? {},
    });
  }

  /** 0 while there is no session. */
  get sessionId(): bigint {
    return this.#session.id;
  }

  /** The session's time-out as the ensemble gave it. */
  get timeoutMs(): number {
    return this.#session.timeoutMs;
  }

  get isConnected(): boolean {
    return this.#session.isConnected;
  }

  /** How many requests were sent so far. */
  get requests(): number {
    return this.#session.requests;
  }

  /** How long an answer through the leader may be trusted, counted from {@link since}. */
  get trustedMs(): number {
    return this.#session.trustedMs;
  }

  /**
   * From when trust counts, after an answer through the leader to a request that was sent at `askedMs`. That is any write, and
   * also a multi of checks; answers to reads and pings prove nothing, as a server cut off from the ensemble gives them too.
   */
  since(askedMs: number): number {
    return this.#session.since(askedMs);
  }

  /** Makes a node, and returns its stat too. */
  async create(path: string, data: Uint8Array, mode: CreateMode): Promise<Created> {
    const { path: made, stat } = await this.#ask(path, (full) => operations.create(full, data, mode, this.#acl));
    return { path: this.#below(made), stat };
  }

  /**
   * Makes an ephemeral sequential node and lists its parent's children, in one round trip: the list is from after the
   * creation. `made` is called as soon as the node is known, even if the list fails. @internal
   */
  createAndList(
    parent: string,
    start: string,
    data: Uint8Array,
    made: (node: EphemeralCreated) => void,
  ): Promise<readonly string[]> {
    const full = this.#full(parent);
    const create = operations.createEphemeral(`${full}/${start}`, data, this.#acl);
    return this.#session.submitBoth(create, operations.getNames(full), ({ path, czxid, sessionId }) =>
      made({ path: this.#below(path), czxid, sessionId }),
    );
  }

  /** The same, and removes the node at `old` in the same transaction. @internal */
  replaceAndList(
    old: string,
    parent: string,
    start: string,
    data: Uint8Array,
    made: (node: EphemeralCreated) => void,
  ): Promise<readonly string[]> {
    const full = this.#full(parent);
    const parts = [
      { op: "delete", path: this.#full(old), version: ANY_VERSION },
      { op: "create", path: `${full}/${start}`, data, mode: "ephemeralSequential" },
    ] as const;
    return this.#session.submitBoth(operations.multi(parts, this.#acl), operations.getNames(full), ([, created]) =>
      made({ path: this.#below(created?.path ?? ""), czxid: created?.zxid ?? 0n, sessionId: this.sessionId }),
    );
  }

  /** Makes every missing node of `path`, the chroot's too. ZooKeeper removes containers some time after they became empty. */
  async makePath(path: string, mode: "container" | "persistent" = "container"): Promise<void> {
    const segments = this.#full(path).split("/").slice(1);
    const parts = segments.map((_, index) => `/${segments.slice(0, index + 1).join("/")}`);
    for (let tries = 1; ; tries++) {
      // Sent together, from the top down; the last answer decides.
      const made = parts.map((part) => this.#session.submit(operations.create(part, EMPTY, mode, this.#acl)));
      const outcomes = await Promise.allSettled(made);
      const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
      const last = outcomes.at(-1);
      if (last?.status !== "rejected" || hasCode(last.reason, "NODEEXISTS")) return;
      // ZooKeeper may have removed a container above in between.
      const mayRetry = hasCode(last.reason, "NONODE") && tries < MAKE_TRIES;
      if (!mayRetry) throw errors.find((error) => !hasCode(error, "NODEEXISTS"));
    }
  }

  delete(path: string, version: number = ANY_VERSION): Promise<void> {
    return this.#ask(path, (full) => operations.remove(full, version));
  }

  /** The node's stat; `undefined` if there is no such node. The watcher is called when that changes. */
  exists(path: string, watcher?: Watcher): Promise<Stat | undefined> {
    return this.#ask(path, (full) => operations.exists(full, watcher !== undefined), "data", watcher);
  }

  getData(path: string, watcher?: Watcher): Promise<NodeData> {
    return this.#ask(path, (full) => operations.getData(full, watcher !== undefined), "data", watcher);
  }

  setData(path: string, data: Uint8Array, version: number = ANY_VERSION): Promise<Stat> {
    return this.#ask(path, (full) => operations.setData(full, data, version));
  }

  getChildren(path: string, watcher?: Watcher): Promise<Children> {
    return this.#ask(path, (full) => operations.getChildren(full, watcher !== undefined), "children", watcher);
  }

  /** Resolves when the server we talk to has caught up with the leader. */
  sync(path: string): Promise<void> {
    return this.#ask(path, operations.sync);
  }

  /** All or nothing, in one transaction. Rejects with a {@link ZooKeeperMultiError} that says which part failed. */
  async multi(parts: readonly MultiPart[]): Promise<readonly MultiResult[]> {
    const below = parts.map((part) => ({ ...part, path: this.#full(part.path) }));
    const results = await this.#session.submit(operations.multi(below, this.#acl));
    return results.map((result) =>
      result.path === undefined ? result : { ...result, path: this.#below(result.path) },
    );
  }

  /** The watcher is not called for the node any more. */
  unwatch(path: string, watcher: Watcher): void {
    this.#session.watches.remove(this.#full(path), watcher);
  }

  /**
   * Ends the session; its ephemeral nodes go with it. `false`: no answer came within `ms`, so they may stay until the
   * session's time-out.
   */
  close(ms: number = CLOSE_MS): Promise<boolean> {
    return this.#session.close(ms);
  }

  /** Disconnects without closing the session, as a crash would. */
  abandon(): void {
    this.#session.abandon();
  }

  /** Disconnects, and makes the ensemble keep the ephemeral nodes for `ms`, as far as it allows. */
  linger(ms: number): Promise<void> {
    return this.#session.linger(ms);
  }

  #ask<T>(
    path: string,
    operation: (full: string) => operations.Operation<T>,
    kind: WatchKind = "data",
    watcher?: Watcher,
  ): Promise<T> {
    let full: string;
    try {
      full = this.#full(path);
    } catch (error) {
      return Promise.reject(error as TypeError);
    }
    if (watcher === undefined) return this.#session.submit(operation(full));
    // Set before any later answer is read: otherwise its first event could be missed.
    return this.#session.submit(operation(full), (isAbsent) =>
      this.#session.watches.add(isAbsent ? "exists" : kind, full, watcher),
    );
  }

  #below(full: string): string {
    return full.slice(this.#chroot.length);
  }

  #full(path: string): string {
    if (!path.startsWith("/"))
      throw new ArgumentError(`Expected a path to start with "/", got ${JSON.stringify(path)}`);
    if (this.#chroot === "") return path;
    return path === "/" ? this.#chroot : this.#chroot + path;
  }
}

function checkChroot(chroot: string): string {
  if (chroot === "" || chroot === "/") return "";
  if (!/^(?:\/[^/]+)+$/.test(chroot)) {
    throw new ArgumentError(`Expected \`chroot\` to be a path such as "/app", got ${JSON.stringify(chroot)}`);
  }
  return chroot;
}
