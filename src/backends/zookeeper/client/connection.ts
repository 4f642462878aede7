/** One connection to one server: dial, handshake, requests and their answers in order, and pings. */
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { Reader, Writer } from "./codec.ts";
import { connectionLoss, toCode, toError } from "./errors.ts";
import { FRAME_MAX_BYTES, FrameSplitter } from "./frames.ts";
import type { Operation } from "./operations.ts";
import { OP, readEvent, type WatchEvent, XID } from "./protocol.ts";
import { type Address, showServer } from "./servers.ts";
import { SessionTrust } from "./session-trust.ts";

/** The client's part of the handshake. A `sessionId` of 0 asks for a new session. */
export interface ConnectRequest {
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Uint8Array;
  readonly lastZxid: bigint;
}

/** The server's part of the handshake. A `timeoutMs` of 0 or less: the session has expired. */
export interface ConnectResponse {
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Buffer;
}

export interface ConnectionListener {
  opened(response: ConnectResponse, trust: SessionTrust): void;
  event(event: WatchEvent): void;
  /** The greatest transaction that an answer has shown. */
  seen(zxid: bigint): void;
  authFailed(): void;
  ended(why: Error): void;
}

export interface Request {
  readonly operation: Operation<unknown>;
  /** Called on success, before any later answer is read. */
  readonly answered?: ((isAbsent: boolean) => void) | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Sent extends Request {
  readonly xid: number;
  readonly sentMs: number;
}

const PINGS_PER_TIMEOUT = 6;
const CHECKS_PER_PING = 2;
/** An answer may take this part of the session's time-out: the rest is for another server. */
const SILENCE = 1 / 3;
/** The answer to a handshake takes 37 bytes, 16 of them the session's password. */
const RESPONSE_MAX_BYTES = 256;
/** No ensemble gives so little; with less, we would ping without end. */
const TIMEOUT_MIN_MS = 50;

export class Connection {
  readonly #socket: Socket;
  readonly #request: ConnectRequest;
  readonly #listener: ConnectionListener;
  readonly #server: string;
  readonly #splitter = new FrameSplitter(RESPONSE_MAX_BYTES);
  readonly #writer = new Writer();
  readonly #reader = new Reader(Buffer.alloc(0));
  #sent: Sent[] = [];
  #firstSent = 0;
  #xid = 0;
  #flushing: NodeJS.Immediate | undefined;
  #requestedMs = 0;
  #trust: SessionTrust | undefined;
  #pingMs: number | undefined;
  #pingTimer: NodeJS.Timeout | undefined;
  #limit: NodeJS.Timeout | undefined;
  #ended = false;

  /** Dials. `limitMs` covers everything up to the server's answer to the handshake. */
  constructor(
    address: Address,
    request: ConnectRequest,
    tls: ConnectionOptions | undefined,
    limitMs: number,
    listener: ConnectionListener,
  ) {
    this.#request = request;
    this.#listener = listener;
    this.#server = showServer(address);
    this.#limit = setTimeout(() => this.end(new Error(`no answer within ${Math.round(limitMs)} ms`)), limitMs);
    this.#socket = dial(address, tls);
    this.#socket.setNoDelay(true);
    this.#socket
      .on(tls === undefined ? "connect" : "secureConnect", () => this.#sendConnectRequest())
      .on("data", (chunk: Buffer) => this.#read(chunk))
      .on("error", (error) => this.end(error))
      .on("close", () => this.end(new Error("the server closed the connection")));
  }

  /** Sends together with all other requests of this turn of the event loop. Answers come in order. */
  send(request: Request): void {
    const xid = (this.#xid % 0x7fff_ffff) + 1;
    const before = this.#writer.length;
    try {
      this.#frame(xid, request.operation.op, (writer) => request.operation.write(writer));
    } catch (error) {
      // What cannot be encoded was never sent.
      this.#writer.truncate(before);
      request.reject(error);
      return;
    }
    this.#xid = xid;
    const { operation, answered, resolve, reject } = request;
    this.#sent.push({ operation, answered, resolve, reject, xid, sentMs: performance.now() });
  }

  /** Sends a request without waiting for its answer. */
  sendOnly(xid: number, op: number, write: (writer: Writer) => void): void {
    this.#frame(xid, op, write);
  }

  /** Ends the connection. Open requests reject with CONNECTIONLOSS: their outcome is unknown. */
  end(why: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#limit);
    clearInterval(this.#pingTimer);
    clearImmediate(this.#flushing);
    this.#socket.destroy();
    const cause = new Error(`${this.#server}: ${why.message}`, { cause: why });
    const open = this.#sent.slice(this.#firstSent);
    this.#sent = [];
    this.#firstSent = 0;
    this.#listener.ended(cause);
    for (const { operation, reject } of open) reject(connectionLoss(operation.what, cause));
  }

  #frame(xid: number, op: number, write: (writer: Writer) => void): void {
    this.#writer.frame((writer) => write(writer.int(xid).int(op)));
    this.#trust?.sent(performance.now());
    // After the callbacks of this turn: what 64 loops request in one turn leaves in one write.
    this.#flushing ??= setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = undefined;
    if (this.#ended || this.#writer.length === 0) return;
    const bytes = this.#writer.take();
    this.#socket.write(bytes, () => this.#writer.giveBack(bytes));
  }

  #sendConnectRequest(): void {
    this.#requestedMs = performance.now();
    const { timeoutMs, sessionId, password, lastZxid } = this.#request;
    const body = new Writer(64).frame((writer) =>
      writer.int(0).long(lastZxid).int(timeoutMs).long(sessionId).buffer(password).bool(false),
    );
    this.#socket.write(body.take());
  }

  #read(chunk: Buffer): void {
    try {
      this.#splitter.push(chunk, this.#onFrame);
    } catch (error) {
      this.end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  readonly #onFrame = (bytes: Buffer, start: number, end: number): void => {
    if (this.#ended) return;
    this.#reader.open(bytes, start, end);
    if (this.#trust === undefined) this.#readConnectResponse(this.#reader);
    else this.#readReply(this.#reader);
  };

  #readConnectResponse(reader: Reader): void {
    clearTimeout(this.#limit);
    reader.int();
    const response = { timeoutMs: reader.int(), sessionId: reader.long(), password: reader.buffer() };
    const { timeoutMs, sessionId } = response;
    const asked = this.#request.sessionId;
    const isOurs = sessionId !== 0n && (asked === 0n || sessionId === asked);
    if (timeoutMs > 0 && (timeoutMs < TIMEOUT_MIN_MS || !isOurs))
      throw new RangeError("a handshake for another session");
    this.#splitter.maxBytes = FRAME_MAX_BYTES;
    this.#trust = new SessionTrust(this.#requestedMs, timeoutMs);
    if (timeoutMs > 0) this.#startPings(timeoutMs);
    this.#listener.opened(response, this.#trust);
  }

  #readReply(reader: Reader): void {
    const xid = reader.int();
    const zxid = reader.long();
    const error = reader.int();
    if (xid === XID.event) {
      const event = readEvent(reader);
      if (event !== undefined) this.#listener.event(event);
    } else if (xid === XID.ping) {
      this.#pingMs = undefined;
    } else if (xid === XID.auth) {
      if (error !== 0) this.#listener.authFailed();
    } else if (xid !== XID.setWatches) {
      const request = this.#sent[this.#firstSent++];
      if (request === undefined || request.xid !== xid) throw new Error(`an answer out of order (${xid})`);
      this.#compact();
      if (zxid > 0n) this.#listener.seen(zxid);
      this.#settle(request, error, reader, zxid);
    }
  }

  #settle({ operation, answered, resolve, reject }: Sent, error: number, reader: Reader, zxid: bigint): void {
    const code = error === 0 ? undefined : toCode(error);
    if (code === "NONODE" && operation.absent !== undefined) {
      answered?.(true);
      return resolve(operation.absent.answer);
    }
    if (code !== undefined) {
      reject(toError(error, operation.what));
      // The server still answers pings on this connection as if nothing had happened: only a new handshake shows the truth.
      if (code === "SESSIONMOVED" || code === "SESSIONEXPIRED") throw new Error(`the session is gone (${code})`);
      return;
    }
    let value: unknown;
    try {
      value = operation.read(reader, zxid);
    } catch (failure) {
      reject(failure instanceof RangeError ? connectionLoss(operation.what, failure) : failure);
      if (failure instanceof RangeError) throw failure;
      return;
    }
    answered?.(false);
    resolve(value);
  }

  /** Keeps the list of open requests short without moving it at every answer. */
  #compact(): void {
    if (this.#firstSent < 256 && this.#firstSent < this.#sent.length) return;
    this.#sent.splice(0, this.#firstSent);
    this.#firstSent = 0;
  }

  #startPings(timeoutMs: number): void {
    const pingMs = timeoutMs / PINGS_PER_TIMEOUT;
    const everyMs = pingMs / CHECKS_PER_PING;
    let checkedMs = performance.now();
    this.#pingTimer = setInterval(() => {
      const nowMs = performance.now();
      // After a pause of this process the answers may be unread in the socket: check again once they were read.
      const wasPaused = nowMs - checkedMs > 2 * everyMs;
      checkedMs = nowMs;
      const oldestMs = Math.min(this.#sent[this.#firstSent]?.sentMs ?? Infinity, this.#pingMs ?? Infinity);
      if (!wasPaused && nowMs - oldestMs > timeoutMs * SILENCE) {
        this.end(new Error(`no answer for ${Math.round(nowMs - oldestMs)} ms`));
      } else if (nowMs - (this.#trust as SessionTrust).lastSentMs > pingMs - everyMs) {
        this.#pingMs ??= nowMs;
        this.sendOnly(XID.ping, OP.ping, () => undefined);
      }
    }, everyMs);
    this.#pingTimer.unref();
  }
}

function dial({ address, host, port }: Address, tls: ConnectionOptions | undefined): Socket {
  if (tls === undefined) return connectTcp({ host: address, port });
  // A certificate names the host, not the address that the name has today.
  const servername = isIP(host) === 0 ? { servername: host } : {};
  return connectTls({ host: address, port, ...servername, ...tls });
}
