/** The body of a request on its way to the parser of Fastify: as it arrived, with a digest of it. */
import { createHash } from "node:crypto";
import { Transform, type TransformCallback } from "node:stream";
import type { FastifyRequest, RequestPayload } from "fastify";
import { ArgumentError } from "../../contract/argument-error.ts";
import { hasBody } from "../http/body.ts";
import { digestOf } from "../http/names.ts";

export class CountedBody extends Transform {
  readonly #hash = createHash("sha256");
  readonly #source: RequestPayload;
  /** Resolves when there was a first part of it, or none at all. */
  readonly #begun: Promise<void>;
  #begin: () => void = () => undefined;
  #isEmpty = true;

  constructor(source: RequestPayload) {
    super();
    this.#source = source;
    this.#begun = new Promise((resolve) => void (this.#begin = resolve));
    source.on("error", (error: Error) => this.destroy(error));
    source.pipe(this);
  }

  /** What Fastify compares with Content-Length. */
  get receivedEncodedLength(): number {
    // Undefined where it was not counted before: then Fastify does.
    return this.#source.receivedEncodedLength as number;
  }

  override _transform(chunk: Uint8Array, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#hash.update(chunk);
    this.#isEmpty = false;
    this.#begin();
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    this.#begin();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#begin();
    done(error);
  }

  /** Throws where it was not read: another body under the same key must not go unnoticed. */
  async digest({ raw }: FastifyRequest): Promise<string> {
    if (this.readableEnded) return this.#hash.copy().digest("base64url");
    if (!hasBody(raw)) return digestOf("");
    // HTTP/2 does not need to say whether there is one.
    if (raw.headers["content-length"] === undefined && raw.httpVersionMajor >= 2) {
      await this.#begun;
      if (this.#isEmpty) return digestOf("");
    }
    throw new ArgumentError(
      "Expected the body of the request to be read before its handler: idempotent() cannot tell one from another that the handler reads itself",
    );
  }
}
