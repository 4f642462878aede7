/** A session with the ensemble: it outlives connections, moves from server to server, and is replaced when it expires. */
import type { ConnectionOptions } from "node:tls";
import { systemClock } from "../../../contract/clock.ts";
import { within } from "../../../contract/time-limit.ts";
import { DialBackoff } from "./backoff.ts";
import { Connection, type ConnectRequest, type ConnectResponse, type Request } from "./connection.ts";
import { connectionLoss, hasCode, ZooKeeperError } from "./errors.ts";
import { closeSession, type Operation } from "./operations.ts";
import { OP, type WatchEvent, XID } from "./protocol.ts";
import { type Resolve, type Server, ServerRounds } from "./servers.ts";
import { type SessionTrust, trustedMs } from "./session-trust.ts";
import { Watches } from "./watches.ts";

/** Events of a session. */
export interface SessionListener {
  /** Connected: with a new session, or again with the same one. */
  connected?(isNew: boolean): void;
  disconnected?(why: Error): void;
  /** The ensemble ended the session, and removed its ephemeral nodes. A new one is being opened. */
  expired?(sessionId: bigint): void;
}

export interface SessionOptions {
  readonly servers: readonly Server[];
  /** How long the ensemble keeps the session of a silent client; it may give less or more. */
  readonly timeoutMs: number;
  readonly tls?: ConnectionOptions | undefined;
  /** `user:password` pairs of the digest scheme. */
  readonly digests: readonly string[];
  readonly resolve?: Resolve | undefined;
  readonly listener: SessionListener;
}

const NO_SESSION = { id: 0n, password: new Uint8Array(16) };
/** A request waits for a connection for two thirds of the time-out, and no longer than this. */
const UNSENT_MAX_MS = 10_000;
/** Once every server has failed, it waits no longer than this. */
const UNSENT_ALL_FAILED_MS = 1000;
const LINGER_MS = 1000;

interface Unsent extends Request {
  readonly timer: NodeJS.Timeout;
  readonly sinceMs: number;
}

export class Session {
  readonly watches: Watches = new Watches();
  readonly #options: SessionOptions;
  readonly #rounds: ServerRounds;
  #id = NO_SESSION.id;
  #password: Uint8Array = NO_SESSION.password;
  #askedTimeoutMs: number;
  #timeoutMs: number;
  #lastZxid = 0n;
  #trust: SessionTrust | undefined;
  #connection: Connection | undefined;
  #isConnected = false;
  /** Set: the session is over, and there will be no further connection. */
  #over: ZooKeeperError | undefined;
  #unsent = new Set<Unsent>();
  readonly #backoff: DialBackoff;
  #pause: NodeJS.Timeout | undefined;
  #lastEnd: Error | undefined;
  #requests = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#rounds = new ServerRounds(options.servers, options.resolve);
    this.#backoff = new DialBackoff(options.servers.length);
    this.#askedTimeoutMs = options.timeoutMs;
    this.#timeoutMs = options.timeoutMs;
    void this.#dial();
  }

  /** 0 while there is no session. */
  get id(): bigint {
    return this.#id;
  }

  /** As negotiated; before the first handshake as requested. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** How many requests were sent, without pings. */
  get requests(): number {
    return this.#requests;
  }

  /** How long an answer through the leader may be trusted, from {@link since}. */
  get trustedMs(): number {
    return trustedMs(this.#timeoutMs);
  }

  /** From when an answer through the leader may be trusted, if it was requested at `askedMs`. */
  since(askedMs: number): number {
    return this.#trust?.since(askedMs) ?? -Infinity;
  }

  /** Sends now, or as soon as there is a connection. `answered` runs before any later answer is read. */
  submit<T>(operation: Operation<T>, answered?: (isAbsent: boolean) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#ask({ operation, answered, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  /**
   * Sends two requests together. `answered` gets the first answer before the second is read. Rejects with the error of the
   * first request that fails.
   */
  submitBoth<A, B>(first: Operation<A>, second: Operation<B>, answered: (answer: A) => void): Promise<B> {
    return new Promise<B>((resolve, reject) => {
      this.#ask({ operation: first, resolve: answered as (value: unknown) => void, reject });
      this.#ask({ operation: second, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  /**
   * Ends the session at the ensemble, which removes its ephemeral nodes; or just disconnects, if that takes longer
   * than `ms`. `false`: it is unknown, and they may stay until the session's time-out.
   */
  async close(ms: number): Promise<boolean> {
    if (this.#over !== undefined) return this.#id === 0n || this.#over.code === "CLOSED";
    // First, so no watcher acts on the removal of our own nodes.
    this.watches.endAll();
    const deadlineMs = performance.now() + ms;
    const isEnded = this.#id === 0n || (await within(systemClock, this.#endSession(deadlineMs), ms)) === true;
    this.#end(new ZooKeeperError("CLOSED", "the client is closed"));
    return isEnded;
  }

  /** Disconnects without closing the session, as a crash would: the ephemeral nodes stay until its time-out. */
  abandon(): void {
    this.#end(new ZooKeeperError("CLOSED", "the client is closed"));
  }

  /** Disconnects, and makes the ensemble keep the session for `ms` from now, as far as it allows. */
  async linger(ms: number): Promise<void> {
    // A handshake may ask for another time-out of the same session, and restarts its clock.
    this.#askedTimeoutMs = Math.max(1, Math.ceil(ms));
    this.#connection?.end(new Error("asking for another time-out"));
    const sent = this.submit({ op: OP.sync, what: "linger", write: (w) => void w.string("/"), read: () => undefined });
    // Best effort: without it the session keeps its own time-out.
    await within(
      systemClock,
      sent.catch(() => undefined),
      LINGER_MS,
    );
    this.abandon();
  }

  /** `true`: the session is certainly over. A reply may be lost: then it is asked again on the next connection. */
  async #endSession(deadlineMs: number): Promise<boolean> {
    for (;;) {
      try {
        await this.submit(closeSession());
        return true;
      } catch (error) {
        if (hasCode(error, "SESSIONEXPIRED")) return true;
        if (!hasCode(error, "CONNECTIONLOSS") || performance.now() >= deadlineMs) return false;
      }
    }
  }

  #ask(request: Request): void {
    if (this.#over !== undefined) request.reject(this.#over);
    else if (this.#isConnected) this.#send(request);
    else this.#keep(request);
  }

  #send(request: Request): void {
    this.#requests++;
    (this.#connection as Connection).send(request);
  }

  #keep(request: Request): void {
    const giveUp = (): void => {
      this.#unsent.delete(unsent);
      request.reject(connectionLoss(request.operation.what, this.#lastEnd));
    };
    const timer = setTimeout(giveUp, Math.min(UNSENT_MAX_MS, (this.#timeoutMs * 2) / 3));
    const { operation, answered, resolve, reject } = request;
    const unsent: Unsent = { operation, answered, resolve, reject, timer, sinceMs: performance.now() };
    this.#unsent.add(unsent);
  }

  #rejectOldUnsent(): void {
    const latestMs = performance.now() - UNSENT_ALL_FAILED_MS;
    for (const unsent of this.#unsent) {
      if (unsent.sinceMs > latestMs) continue;
      this.#unsent.delete(unsent);
      clearTimeout(unsent.timer);
      unsent.reject(connectionLoss(unsent.operation.what, this.#lastEnd));
    }
  }

  #takeUnsent(): readonly Unsent[] {
    const taken = [...this.#unsent];
    this.#unsent.clear();
    for (const { timer } of taken) clearTimeout(timer);
    return taken;
  }

  async #dial(): Promise<void> {
    const request = (): ConnectRequest => ({
      timeoutMs: this.#askedTimeoutMs,
      sessionId: this.#id,
      password: this.#password,
      lastZxid: this.#lastZxid,
    });
    try {
      const address = await this.#rounds.next();
      if (this.#over !== undefined) return;
      const connection: Connection = new Connection(
        address,
        request(),
        this.#options.tls,
        this.#backoff.dialLimitMs(this.#timeoutMs),
        {
          opened: (response, trust) => this.#opened(response, trust),
          event: (event) => this.#fire(event),
          seen: (zxid) => {
            if (zxid > this.#lastZxid) this.#lastZxid = zxid;
          },
          authFailed: () =>
            this.#end(new ZooKeeperError("AUTHFAILED", "the ensemble refused the user or the password")),
          ended: (why) => this.#ended(why),
        },
      );
      this.#connection = connection;
    } catch (error) {
      this.#ended(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #opened(response: ConnectResponse, trust: SessionTrust): void {
    if (response.timeoutMs <= 0) return this.#expire();
    const isNew = this.#id === 0n;
    this.#id = response.sessionId;
    this.#password = response.password;
    this.#timeoutMs = response.timeoutMs;
    this.#trust = trust;
    this.#backoff.opened();
    this.#isConnected = true;
    const connection = this.#connection as Connection;
    // In this order: later requests need the rights, and must not miss watch events.
    for (const digest of this.#options.digests) {
      connection.sendOnly(
        XID.auth,
        OP.auth,
        (writer) => void writer.int(0).string("digest").buffer(Buffer.from(digest)),
      );
    }
    for (const write of this.watches.restore(this.#lastZxid)) connection.sendOnly(XID.setWatches, OP.setWatches, write);
    for (const request of this.#takeUnsent()) this.#send(request);
    this.#options.listener.connected?.(isNew);
  }

  #fire(event: WatchEvent): void {
    this.watches.fire(event);
  }

  #expire(): void {
    const id = this.#id;
    this.#id = NO_SESSION.id;
    this.#password = NO_SESSION.password;
    this.#lastZxid = 0n;
    const error = new ZooKeeperError("SESSIONEXPIRED", "the ensemble ended the session");
    for (const { reject } of this.#takeUnsent()) reject(error);
    this.#options.listener.expired?.(id);
    this.watches.endAll();
    this.#connection?.end(error);
  }

  #ended(why: Error): void {
    const wasConnected = this.#isConnected;
    this.#isConnected = false;
    this.#connection = undefined;
    this.#lastEnd = why;
    if (this.#over !== undefined) return;
    const pauseMs = this.#backoff.ended(this.#rounds.left);
    if (this.#backoff.allFailed) this.#rejectOldUnsent();
    this.#pause = setTimeout(() => void this.#dial(), pauseMs);
    if (wasConnected) this.#options.listener.disconnected?.(why);
  }

  #end(why: ZooKeeperError): void {
    if (this.#over !== undefined) return;
    this.#over = why;
    clearTimeout(this.#pause);
    this.#connection?.end(why);
    for (const { reject } of this.#takeUnsent()) reject(why);
    this.watches.endAll();
  }
}
