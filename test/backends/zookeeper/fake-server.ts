/** A server that speaks ZooKeeper's protocol and sends what the test wants: for replies that no real server sends. */
import { createServer, type AddressInfo, type Socket } from "node:net";
import { Reader, Writer } from "../../../src/backends/zookeeper/client/codec.ts";
import { FrameSplitter } from "../../../src/backends/zookeeper/client/frames.ts";

export interface Asked {
  readonly xid: number;
  readonly op: number;
  /** The request's body. */
  readonly reader: Reader;
  readonly socket: Socket;
}

export interface FakeServer extends AsyncDisposable {
  /** `host:port`. */
  readonly address: string;
  /** How many connections were accepted so far. */
  readonly connections: number;
  readonly sockets: readonly Socket[];
}

export interface FakeOptions {
  /** The bytes that answer the handshake. @default a welcome to session 7 */
  readonly welcome?: (() => Buffer) | undefined;
  /** Called right after the welcome was written. */
  readonly greeted?: ((socket: Socket) => void) | undefined;
  /** Called for every request after the handshake. */
  readonly asked?: ((request: Asked) => void) | undefined;
}

export const SESSION = 7n;
const PING = -2;

export function welcome(timeoutMs = 30_000, sessionId: bigint = SESSION, passwordBytes = 16): Buffer {
  return new Writer()
    .frame((writer) => writer.int(0).int(timeoutMs).long(sessionId).buffer(Buffer.alloc(passwordBytes, 1)).bool(false))
    .take();
}

/** The frame of an answer. */
export function answer(
  xid: number,
  body: (writer: Writer) => void = () => undefined,
  { zxid = 9n, error = 0 }: { readonly zxid?: bigint; readonly error?: number } = {},
): Buffer {
  return new Writer().frame((writer) => body(writer.int(xid).long(zxid).int(error))).take();
}

/** A node's numbers, as far as a lock reads them. */
export function writeStat(writer: Writer, czxid: bigint, ephemeralOwner: bigint): void {
  writer.long(czxid).long(czxid).long(0n).long(0n).int(0).int(0).int(0).long(ephemeralOwner).int(0).int(0).long(czxid);
}

export async function startFake(options: FakeOptions = {}): Promise<FakeServer> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    const splitter = new FrameSplitter();
    let isGreeted = false;
    const onFrame = (bytes: Buffer, start: number, end: number): void => {
      if (!isGreeted) {
        isGreeted = true;
        socket.write(options.welcome?.() ?? welcome());
        options.greeted?.(socket);
        return;
      }
      const reader = new Reader(bytes, start, end);
      const [xid, op] = [reader.int(), reader.int()];
      if (xid === PING) socket.write(answer(PING));
      else options.asked?.({ xid, op, reader, socket });
    };
    socket.on("error", () => undefined).on("data", (chunk: Buffer) => splitter.push(chunk, onFrame));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() {
      return sockets.length;
    },
    sockets,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
