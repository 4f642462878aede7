/** One gRPC call on an HTTP/2 stream: messages in both directions, and a status at its end. */
import { type ClientHttp2Stream, constants, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import { EtcdError, lost, toError, unsent } from "./errors.ts";
import { Deframer, toFrame } from "./frames.ts";

export interface GrpcListener {
  message(bytes: Buffer): void;
  /** Called once. `undefined`: the server ended the call with the status OK. */
  ended(error: EtcdError | undefined): void;
}

type Headers = IncomingHttpHeaders & IncomingHttpStatusHeader;

export class GrpcStream {
  readonly #stream: ClientHttp2Stream;
  readonly #listener: GrpcListener;
  readonly #deframer: Deframer;
  #status: string | undefined;
  #reason = "";
  #failure: unknown;
  #isOver = false;

  /** `maxBytes`: of one message of the server. */
  constructor(stream: ClientHttp2Stream, maxBytes: number, listener: GrpcListener, onFrame: () => void) {
    this.#stream = stream;
    this.#listener = listener;
    this.#deframer = new Deframer(maxBytes);
    stream
      .on("response", (headers) => {
        onFrame();
        this.#readHead(headers);
      })
      .on("trailers", (headers) => {
        onFrame();
        this.#readStatus(headers);
      })
      .on("data", (chunk: Buffer) => {
        onFrame();
        this.#read(chunk);
      })
      .on("error", (error) => {
        this.#failure ??= error;
      })
      .on("close", () => this.#end());
  }

  write(message: Uint8Array): void {
    if (!this.#isOver && this.#stream.writable) this.#stream.write(toFrame(message));
  }

  /** Writes the only message of a unary call. */
  finish(message: Uint8Array): void {
    this.#stream.end(toFrame(message));
  }

  /** Nothing more is heard of it. */
  abandon(): void {
    this.#isOver = true;
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  #readHead(headers: Headers): void {
    const status = headers[":status"];
    const type = headers["content-type"];
    if (status !== 200) this.fail(new Error(`HTTP status ${status}: this is no etcd server`));
    else if (type !== undefined && !type.startsWith("application/grpc")) {
      this.fail(new Error(`an answer of type ${type.slice(0, 50)}: this is no etcd server`));
    }
    // "Trailers only": a call that failed at once has its status here.
    this.#readStatus(headers);
  }

  #readStatus(headers: IncomingHttpHeaders): void {
    const status = headers["grpc-status"];
    if (typeof status !== "string") return;
    this.#status = status;
    const reason = headers["grpc-message"];
    this.#reason = typeof reason === "string" ? reason : "";
  }

  #read(chunk: Buffer): void {
    if (this.#isOver || this.#failure !== undefined) return;
    try {
      this.#deframer.push(chunk, (message) => {
        if (!this.#isOver) this.#listener.message(message);
      });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends it with this reason. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.ended(this.#error());
  }

  #error(): EtcdError | undefined {
    // A server that goes away says which calls it has not looked at.
    if (this.#stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) return unsent("the member did not take the call");
    if (this.#failure !== undefined) return lost(reasonOf(this.#failure), this.#failure);
    if (this.#status === undefined || this.#deframer.isInside) return lost("the answer was cut off");
    return this.#status === "0" ? undefined : toError(this.#status, this.#reason);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
