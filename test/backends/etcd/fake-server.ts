/** A server that speaks gRPC and answers whatever a test wants, right or wrong. */
import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { Writer } from "../../../src/backends/etcd/client/codec.ts";
import { Deframer, toFrame } from "../../../src/backends/etcd/client/frames.ts";

export type Answer =
  /** A message, and the status OK. */
  | Uint8Array
  /** A status in trailers, or where nothing else is sent in the headers. */
  | { readonly status: number; readonly reason?: string; readonly inTrailers?: boolean }
  /** These bytes, framed or not, and then the end with the status OK. */
  | { readonly raw: Uint8Array; readonly http?: number; readonly type?: string; readonly ends?: boolean }
  | "never";

export interface FakeServer {
  readonly endpoint: string;
  /** Paths that were called so far, without the service. */
  readonly calls: string[];
  readonly sessions: ReadonlySet<ServerHttp2Session>;
  stop(): Promise<void>;
}

/** `answer` is called for each message of each call, with the metadata. */
export async function fakeServer(
  answer: (method: string, message: Buffer, metadata: Readonly<Record<string, unknown>>) => Answer | Promise<Answer>,
): Promise<FakeServer> {
  const server: Http2Server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  const calls: string[] = [];
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => undefined);
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    const method = String(headers[":path"]).replace("/etcdserverpb.", "");
    const deframer = new Deframer(2 ** 24);
    stream.on("error", () => undefined);
    stream.on("data", (chunk: Buffer) =>
      deframer.push(chunk, (message) => {
        calls.push(method);
        const answered = answer(method, message, headers);
        const send = (known: Answer): void => reply(stream, known, STREAMS.has(method));
        if (answered instanceof Promise) void answered.then(send);
        else send(answered);
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `127.0.0.1:${port}`,
    calls,
    sessions,
    stop: async () => {
      for (const session of sessions) session.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const STREAMS = new Set(["Lease/LeaseKeepAlive", "Watch/Watch"]);

function reply(stream: ServerHttp2Stream, answer: Answer, isStream: boolean): void {
  if (answer === "never" || stream.destroyed || (stream.headersSent && !(answer instanceof Uint8Array))) return;
  if (answer instanceof Uint8Array) {
    if (!stream.headersSent) stream.respond(OK, { waitForTrailers: !isStream });
    if (!isStream) stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    if (isStream) stream.write(toFrame(answer));
    else stream.end(toFrame(answer));
  } else if ("raw" in answer) {
    const { raw, http = 200, type = "application/grpc", ends = true } = answer;
    stream.respond({ ":status": http, "content-type": type }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    if (ends) stream.end(raw);
    else stream.write(raw);
  } else {
    const status = { "grpc-status": String(answer.status), "grpc-message": answer.reason ?? "" };
    if (answer.inTrailers === true) {
      stream.respond(OK, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers(status));
      stream.end();
    } else stream.respond({ ...OK, ...status }, { endStream: true });
  }
}

const OK = { ":status": 200, "content-type": "application/grpc" };

/** A response header. */
function header(term: bigint, revision = 1n, clusterId = 7n): (writer: Writer) => void {
  return (writer) => writer.int(1, clusterId).int(2, 1).int(3, revision).int(4, term);
}

export function leaseAnswer(id: bigint, ttl: number, term: bigint, revision = 1n): Buffer {
  return new Writer().message(1, header(term, revision)).int(2, id).int(3, ttl).take();
}

export interface FakeKey {
  readonly key: string;
  readonly create: bigint;
  readonly mod?: bigint;
  readonly value?: string;
  readonly lease?: bigint;
}

function rangePart(keys: readonly FakeKey[]): (writer: Writer) => void {
  return (writer) => {
    for (const { key, create, mod = create, value = "", lease = 1n } of keys) {
      writer.message(2, (kv) => kv.text(1, key).int(2, create).int(3, mod).int(4, 1).text(5, value).int(6, lease));
    }
  };
}

export function rangeAnswer(keys: readonly FakeKey[], term = 2n, revision = 1n): Buffer {
  const writer = new Writer().message(1, header(term, revision));
  rangePart(keys)(writer);
  return writer.take();
}

/** `parts`: the keys of each operation's answer. */
export function txnAnswer(
  succeeded: boolean,
  parts: readonly (readonly FakeKey[])[],
  term = 2n,
  revision = 1n,
  clusterId = 7n,
): Buffer {
  const writer = new Writer().message(1, header(term, revision, clusterId)).bool(2, succeeded);
  for (const keys of parts) writer.message(3, (part) => part.message(1, rangePart(keys)));
  return writer.take();
}
