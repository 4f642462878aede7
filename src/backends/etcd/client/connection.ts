/** One HTTP/2 connection to one member. It never comes back: what ended is replaced by another one. */
import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { CallWindow } from "./call-window.ts";
import { MalformedError } from "./codec.ts";
import { type Endpoint, showEndpoint } from "./endpoints.ts";
import { EtcdError, lost, unsent } from "./errors.ts";
import { maxBytesOf } from "./frames.ts";
import { type GrpcListener, GrpcStream } from "./grpc-stream.ts";

export interface ConnectionListener {
  opened(): void;
  /** It takes no new calls: the member is going away, or all is over. */
  leaving(): void;
  /** Called once. No call is open any more. */
  ended(why: Error): void;
}

/** What goes with every call. */
export type Metadata = Readonly<Record<string, string>>;

/** A member that is silent for longer is asked for a sign of life. More often than every 5 s, etcd hangs up. */
const PING_AFTER_MS = 6000;
const PING_ANSWER_MS = 2000;
const WINDOW_BYTES = 1024 * 1024;

export class Connection {
  readonly endpoint: string;
  /** Of its own: calls that a member keeps waiting are not in the way of those to the next. */
  readonly window: CallWindow = new CallWindow();
  readonly #session: ClientHttp2Session;
  readonly #socket: Socket;
  readonly #listener: ConnectionListener;
  readonly #limit: NodeJS.Timeout;
  readonly #pings: NodeJS.Timeout;
  #pingTimer: NodeJS.Timeout | undefined;
  #isOpen = false;
  /** Set: it is over, and why. */
  #why: Error | undefined;
  #isLeaving = false;
  /** Calls that wait for their answer. */
  #calls = 0;
  readonly #streams = new Set<GrpcStream>();
  #heardMs = performance.now();

  constructor(endpoint: Endpoint, tls: ConnectionOptions | undefined, limitMs: number, listener: ConnectionListener) {
    this.endpoint = showEndpoint(endpoint);
    this.#listener = listener;
    const socket = dial(endpoint, tls);
    this.#socket = socket;
    this.#session = connect(`${tls === undefined ? "http" : "https"}://${this.endpoint}`, {
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
      createConnection: () => socket,
    });
    // Calls that wait keep the process alive, by their timers; a connection alone does not.
    this.#session.unref();
    this.#limit = setTimeout(() => this.end(new Error(`no connection within ${Math.round(limitMs)} ms`)), limitMs);
    this.#pings = setInterval(() => this.#checkLife(), PING_AFTER_MS);
    this.#pings.unref();
    this.#session
      .on("connect", () => this.#opened())
      .on("goaway", () => this.leave())
      .on("error", (error) => this.end(error))
      .on("close", () => this.end(new Error("the member closed the connection")));
    // The session's own event does not always come: Node 20 forgets it after some failures of TLS.
    socket
      .on("error", (error) => this.end(error))
      .on("close", () => {
        this.end(new Error("the member closed the connection"));
        this.#listener.ended(this.#why as Error);
      });
  }

  get #isOver(): boolean {
    return this.#why !== undefined;
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#isLeaving && !this.#isOver;
  }

  /** When the member last sent anything. */
  get heardMs(): number {
    return this.#heardMs;
  }

  /** One request, one answer. Rejects with an {@link EtcdError}. `late` is called where the answer did not come in time. */
  call(path: string, metadata: Metadata, message: Uint8Array, limitMs: number, late: () => void): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      let answer: Buffer | undefined;
      let isDoubled = false;
      this.#calls++;
      const done = (): void => {
        clearTimeout(timer);
        this.#calls--;
        if (this.#isLeaving && this.#calls === 0) this.end(new Error("the member is going away"));
      };
      const timer = setTimeout(() => {
        stream?.abandon();
        done();
        reject(new EtcdError("DEADLINE_EXCEEDED", `${this.endpoint}: no answer within ${Math.round(limitMs)} ms`));
        late();
      }, limitMs);
      const stream = this.#request(
        path,
        { ...metadata, "grpc-timeout": `${Math.ceil(limitMs)}m` },
        {
          message: (bytes) => {
            isDoubled ||= answer !== undefined;
            answer = bytes;
          },
          ended: (error) => {
            done();
            if (error !== undefined) reject(error);
            else if (answer === undefined || isDoubled)
              reject(lost("not one answer", new MalformedError("its number")));
            else resolve(answer);
          },
        },
      );
      if (stream === undefined) {
        done();
        reject(unsent(`${this.endpoint}: the connection is closed`));
      } else stream.finish(message);
    });
  }

  /** Messages in both directions, until one side ends it. `undefined`: the connection takes no calls. */
  open(path: string, metadata: Metadata, listener: GrpcListener): GrpcStream | undefined {
    const stream = this.#request(path, metadata, {
      message: (bytes) => listener.message(bytes),
      ended: (error) => {
        if (stream !== undefined) this.#streams.delete(stream);
        listener.ended(error);
      },
    });
    if (stream !== undefined) this.#streams.add(stream);
    return stream;
  }

  /** Ends the connection. Calls that are open reject: their outcome is unknown. */
  end(why: Error): void {
    if (this.#isOver) return;
    clearTimeout(this.#limit);
    clearTimeout(this.#pingTimer);
    clearInterval(this.#pings);
    const cause = new Error(`${this.endpoint}: ${why.message}`, { cause: why });
    this.#why = cause;
    this.#listener.leaving();
    this.window.close();
    // Not from inside an event of one of its streams, which Node 20 does not survive: it loops for ever.
    // With the error, so that calls know the reason; without it where no call can be open, as an error needs a listener.
    setImmediate(() => {
      this.#session.destroy(this.#isOpen ? cause : undefined);
      this.#socket.destroy();
    });
  }

  #opened(): void {
    clearTimeout(this.#limit);
    this.#isOpen = true;
    this.#heardMs = performance.now();
    if (!this.#isOver) this.#listener.opened();
  }

  /** Takes no new calls, and ends when those that are open are answered or too late. */
  leave(): void {
    if (this.#isLeaving || this.#isOver) return;
    this.#isLeaving = true;
    this.#listener.leaving();
    this.window.close();
    // What they are for goes on with the next member at once: this one may keep its calls waiting.
    for (const stream of this.#streams) stream.fail(new Error("the member is going away"));
    if (this.#calls === 0) this.end(new Error("the member is going away"));
  }

  #request(path: string, metadata: Metadata, listener: GrpcListener): GrpcStream | undefined {
    if (this.#isOver || this.#isLeaving || this.#session.closed || this.#session.destroyed) return undefined;
    const headers: OutgoingHttpHeaders = {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
      ...metadata,
    };
    try {
      return new GrpcStream(this.#session.request(headers), maxBytesOf(path), listener, () => this.#heard());
    } catch {
      return undefined;
    }
  }

  #heard(): void {
    this.#heardMs = performance.now();
  }

  /** A stopped member keeps its connections: only a question shows that it is gone. */
  #checkLife(): void {
    const isIdle = this.#calls === 0 && this.#streams.size === 0;
    const nowMs = performance.now();
    if (!this.#isOpen || isIdle || this.#pingTimer !== undefined || nowMs - this.#heardMs < PING_AFTER_MS) return;
    try {
      if (!this.#session.ping((error) => this.#answered(error))) return;
    } catch {
      return;
    }
    this.#awaitPing(nowMs, true);
  }

  /** After a pause of this process the answer may be unread in the socket: then it gets the time again. */
  #awaitPing(askedMs: number, mayBeLate: boolean): void {
    this.#pingTimer = setTimeout(() => {
      const wasPaused = performance.now() - askedMs > 1.5 * PING_ANSWER_MS;
      if (wasPaused && mayBeLate) this.#awaitPing(performance.now(), false);
      else this.end(new Error(`no answer to a ping within ${PING_ANSWER_MS} ms`));
    }, PING_ANSWER_MS);
    this.#pingTimer.unref();
  }

  #answered(error: Error | null): void {
    clearTimeout(this.#pingTimer);
    this.#pingTimer = undefined;
    if (error === null) this.#heard();
  }
}

function dial({ host, port }: Endpoint, tls: ConnectionOptions | undefined): Socket {
  if (tls === undefined) return connectTcp({ host, port, noDelay: true });
  // A certificate names the host; an address is checked as one.
  const servername = isIP(host) === 0 ? { servername: host } : {};
  const socket = connectTls({ host, port, ...servername, ...tls, ALPNProtocols: ["h2"] });
  return socket.setNoDelay(true);
}
