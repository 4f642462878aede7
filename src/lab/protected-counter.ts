/**
 * The protected thing: a counter behind HTTP, twice. One register takes every write; the other has a guard that
 * refuses old fences. Every client writes to both, so one play shows the same fault with fencing off and on.
 */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { admit, FenceRejectedError, memoryMarks, readFenceHeader } from "../fence/index.ts";
import type { History, Register } from "./events.ts";
import { HOST } from "./servers/scratch.ts";

export interface ProtectedCounter {
  readonly port: number;
  readonly url: string;
  value(register: Register): number;
  stop(): Promise<void>;
}

interface WriteOrder {
  readonly by: string;
  readonly read: number;
  readonly value: number;
}

/** Starts the counter for one lock; it reports every write to the history. */
export async function startProtectedCounter(lock: string, history: History): Promise<ProtectedCounter> {
  const values: Record<Register, number> = { plain: 0, guarded: 0 };
  const marks = memoryMarks();
  const write = async (register: Register, order: WriteOrder, fence: bigint | undefined): Promise<boolean> => {
    let accepted = true;
    try {
      if (register === "guarded" && fence !== undefined) await admit(marks, { name: lock, fence });
    } catch (error) {
      if (!(error instanceof FenceRejectedError)) throw error;
      accepted = false;
    }
    if (accepted) values[register] = order.value;
    history.add("counter", { kind: "write", register, fence, accepted, ...order });
    return accepted;
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const register = request.url === "/guarded" ? "guarded" : "plain";
    if (request.method === "GET") {
      response.end(JSON.stringify(values[register]));
      return;
    }
    const order = parseOrder(await readBody(request));
    const header = request.headers["fencing-token"];
    const fence = typeof header === "string" ? readFenceHeader(header)?.get(lock) : undefined;
    const accepted = await write(register, order, fence);
    response.writeHead(accepted ? 200 : 412).end();
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => response.writeHead(400).end(String(error)));
  });
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${HOST}:${port}`,
    value: (register) => values[register],
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) {
    body += String(chunk);
    if (body.length > 1000) throw new TypeError("Expected a small body");
  }
  return body;
}

function parseOrder(body: string): WriteOrder {
  const { by, read, value } = JSON.parse(body) as Record<string, unknown>;
  if (typeof by !== "string" || typeof read !== "number" || typeof value !== "number") {
    throw new TypeError("Expected a body with `by`, `read` and `value`");
  }
  return { by, read, value };
}
