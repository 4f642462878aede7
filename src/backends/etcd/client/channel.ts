/** The way to the cluster: one connection at a time, replaced by one to another member when it ends or its member is of no use. */
import type { ConnectionOptions } from "node:tls";
import { systemClock } from "../../../contract/clock.ts";
import { within } from "../../../contract/time-limit.ts";
import { DialBackoff } from "./backoff.ts";
import type { Rank } from "./call-window.ts";
import { writeAuthenticate, readToken } from "./cluster-messages.ts";
import { Connection, type Metadata } from "./connection.ts";
import { type Endpoint, EndpointRing } from "./endpoints.ts";
import { EtcdError, hasCode, isStaleToken, unsent } from "./errors.ts";
import type { GrpcListener, GrpcStream } from "./grpc-stream.ts";

export interface ChannelOptions {
  readonly endpoints: readonly Endpoint[];
  readonly tls?: ConnectionOptions | undefined;
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /** Connected: for the first time, or again. */
  readonly connected?: ((isFirst: boolean) => void) | undefined;
}

/** A member without a leader refuses the call at once, and ends a stream, instead of letting it wait. */
const NEEDS_LEADER: Metadata = { hasleader: "true" };
/** Once every member has failed, a call waits no longer than this for one. */
const ALL_FAILED_MS = 1000;
const AUTHENTICATE = "/etcdserverpb.Auth/Authenticate";
/** Of its own: a member takes long for it, and a call with less time is not the last that needs a token. */
const AUTHENTICATE_MS = 3000;

interface Waiter {
  readonly sinceMs: number;
  readonly resolve: (connection: Connection) => void;
  readonly reject: (error: EtcdError) => void;
  timer: NodeJS.Timeout;
}

export interface CallOptions {
  /** @default that the member must know a leader */
  readonly metadata?: Metadata | undefined;
  /** Where many calls are out. @default "end" */
  readonly rank?: Rank | undefined;
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #ring: EndpointRing;
  readonly #backoff: DialBackoff;
  readonly #waiters = new Set<Waiter>();
  readonly #ending = new Set<Connection>();
  #connection: Connection | undefined;
  #pause: NodeJS.Timeout | undefined;
  #isFirst = true;
  #isClosed = false;
  #lastEnd: Error | undefined;
  #token: Promise<string> | undefined;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#ring = new EndpointRing(options.endpoints);
    this.#backoff = new DialBackoff(options.endpoints.length);
    this.#dial();
  }

  get isConnected(): boolean {
    return this.#connection?.isOpen === true;
  }

  /**
   * One request, one answer, within `limitMs` from its turn. What certainly was not carried out is sent again, to another member;
   * what may have been rejects.
   */
  async call(path: string, message: Uint8Array, limitMs: number, how: CallOptions = {}): Promise<Buffer> {
    const { metadata = NEEDS_LEADER, rank = "end" } = how;
    let deadlineMs = performance.now() + limitMs;
    let mayRenewToken = true;
    for (;;) {
      const connection = await this.#connected(deadlineMs);
      const sinceMs = performance.now();
      const turn = connection.window.enter(rank, limitMs);
      const isTurn = turn === undefined || (await turn);
      // Other calls were answered while it waited: the time that this took is not its own.
      if (turn !== undefined && connection.window.answeredMs > sinceMs) deadlineMs = performance.now() + limitMs;
      if (!isTurn) {
        if (connection.isOpen) this.late(sinceMs, connection);
        if (performance.now() < deadlineMs) continue;
        throw unsent(`${connection.endpoint}: no call was answered within ${Math.round(limitMs)} ms`);
      }
      const login = this.#login(connection);
      let token: string | undefined;
      let isAnswered = true;
      try {
        token = await this.#inTime(login, deadlineMs);
        const restMs = deadlineMs - performance.now();
        if (restMs <= 0) throw unsent(`${connection.endpoint}: no time was left`);
        return await this.#callOn(connection, path, withToken(metadata, token), message, restMs);
      } catch (error) {
        isAnswered = !hasCode(error, "DEADLINE_EXCEEDED", "UNAVAILABLE");
        if (token !== undefined && mayRenewToken && isStaleToken(error)) {
          mayRenewToken = false;
          this.#forget(login);
        } else if (!(error instanceof EtcdError && error.isMembers) || performance.now() >= deadlineMs) throw error;
        else connection.leave();
      } finally {
        connection.window.leave(isAnswered);
      }
    }
  }

  /** Opens a stream on the present connection. `undefined`: there is none now. */
  async open(path: string, listener: GrpcListener, limitMs: number): Promise<GrpcStream | undefined> {
    const deadlineMs = performance.now() + limitMs;
    const connection = await this.#connected(deadlineMs);
    const login = this.#login(connection);
    const token = await this.#inTime(login, deadlineMs);
    return connection.open(path, withToken(NEEDS_LEADER, token), {
      message: (bytes) => listener.message(bytes),
      ended: (error) => {
        // Another member may have a leader; and a new token is taken for the next stream.
        if (isStaleToken(error)) this.#forget(login);
        else if (error?.isMembers === true) connection.leave();
        listener.ended(error);
      },
    });
  }

  /**
   * The member did not answer in time what was asked at `sinceMs`: another one may. One that has said nothing since is taken
   * for dead. One that talks may be cut off from the others, or just slow: the calls that it has are waited for.
   */
  late(sinceMs: number, connection: Connection | undefined = this.#connection): void {
    if (connection === undefined) return;
    if (connection.heardMs <= sinceMs) connection.end(new Error("no answer in time"));
    else if (this.#ring.size > 1) connection.leave();
  }

  /** Resolves when every connection is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#pause);
    const closed = new EtcdError("CLOSED", "the client is closed");
    for (const waiter of this.#waiters) this.#reject(waiter, closed);
    const all = [...this.#ending];
    await Promise.all(all.map((connection) => this.#ended(connection, closed)));
  }

  #ended(connection: Connection, why: Error): Promise<void> {
    return new Promise((resolve) => {
      this.#onEnd.set(connection, resolve);
      connection.end(why);
    });
  }

  readonly #onEnd = new Map<Connection, () => void>();

  #callOn(
    connection: Connection,
    path: string,
    metadata: Metadata,
    message: Uint8Array,
    limitMs: number,
  ): Promise<Buffer> {
    const sentMs = performance.now();
    return connection.call(path, metadata, message, limitMs, () => this.late(sentMs, connection));
  }

  #dial(): void {
    if (this.#isClosed) return;
    const connection: Connection = new Connection(this.#ring.next(), this.#options.tls, this.#backoff.limitMs, {
      opened: () => this.#opened(connection),
      leaving: () => this.#leaving(connection),
      ended: (why) => {
        this.#lastEnd = why;
        this.#ending.delete(connection);
        this.#onEnd.get(connection)?.();
        this.#onEnd.delete(connection);
        // One that never opened is reported as failed when its reason is known.
        if (this.#connection === undefined && this.#backoff.allFailed) this.#hurry();
      },
    });
    this.#ending.add(connection);
    this.#connection = connection;
  }

  #opened(connection: Connection): void {
    this.#backoff.opened();
    for (const waiter of this.#waiters) {
      clearTimeout(waiter.timer);
      waiter.resolve(connection);
    }
    this.#waiters.clear();
    this.#options.connected?.(this.#isFirst);
    this.#isFirst = false;
  }

  #leaving(connection: Connection): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    if (this.#isClosed) return;
    const pauseMs = this.#backoff.ended();
    this.#pause = setTimeout(() => this.#dial(), pauseMs);
    // What waits for a connection keeps the process alive, not this.
    this.#pause.unref();
  }

  #connected(deadlineMs: number): Promise<Connection> {
    if (this.#isClosed) return Promise.reject(new EtcdError("CLOSED", "the client is closed"));
    if (this.#connection?.isOpen === true) return Promise.resolve(this.#connection);
    return new Promise((resolve, reject) => {
      const nowMs = performance.now();
      const waiter: Waiter = { sinceMs: nowMs, resolve, reject, timer: setTimeout(() => {}, 0) };
      this.#waiters.add(waiter);
      this.#rejectAt(waiter, deadlineMs);
      if (this.#backoff.allFailed) this.#rejectAt(waiter, Math.min(deadlineMs, nowMs + ALL_FAILED_MS));
    });
  }

  #rejectAt(waiter: Waiter, atMs: number): void {
    clearTimeout(waiter.timer);
    waiter.timer = setTimeout(() => this.#reject(waiter, this.#unreachable()), Math.max(0, atMs - performance.now()));
  }

  #reject(waiter: Waiter, error: EtcdError): void {
    clearTimeout(waiter.timer);
    this.#waiters.delete(waiter);
    waiter.reject(error);
  }

  /** Every member has failed: those that wait for one get an answer soon. */
  #hurry(): void {
    for (const waiter of this.#waiters) {
      const atMs = waiter.sinceMs + ALL_FAILED_MS;
      if (atMs <= performance.now()) this.#reject(waiter, this.#unreachable());
    }
  }

  #unreachable(): EtcdError {
    const { message = "not connected yet" } = this.#lastEnd ?? {};
    return unsent(`no member can be reached: ${message}`, this.#lastEnd);
  }

  /** One for all calls until it is forgotten. `undefined`: there is no user. */
  #login(connection: Connection): Promise<string> | undefined {
    const { auth } = this.#options;
    if (auth === undefined || this.#token !== undefined) return this.#token;
    const login = this.#authenticate(connection, auth);
    this.#token = login;
    login.catch(() => this.#forget(login));
    return login;
  }

  /** Rejects when the call's own time is over. The login goes on, for the next call. */
  async #inTime(login: Promise<string> | undefined, deadlineMs: number): Promise<string | undefined> {
    if (login === undefined) return undefined;
    const token = await within(systemClock, login, Math.max(0, deadlineMs - performance.now()));
    if (token === undefined) throw unsent("no time was left for a call: authentication takes longer");
    return token;
  }

  /** Its token is of no use any more. A later one may be there: a member takes long for each, so one must serve all calls. */
  #forget(login: Promise<string> | undefined): void {
    if (this.#token === login) this.#token = undefined;
  }

  async #authenticate(
    connection: Connection,
    { user, password }: { readonly user: string; readonly password: string },
  ): Promise<string> {
    const message = writeAuthenticate(user, password).take();
    try {
      return readToken(await this.#callOn(connection, AUTHENTICATE, NEEDS_LEADER, message, AUTHENTICATE_MS));
    } catch (error) {
      // A cluster without authentication takes all calls.
      if (hasCode(error, "FAILED_PRECONDITION")) return "";
      // Nothing was changed by it, whatever became of it.
      if (error instanceof EtcdError && !error.isRefusal) throw unsent(`authentication: ${error.message}`, error);
      throw error;
    }
  }
}

function withToken(metadata: Metadata, token: string | undefined): Metadata {
  return token === undefined || token === "" ? metadata : { ...metadata, token };
}
