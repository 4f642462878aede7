/** A console on a real server, with a store that counts what it is asked, and clients that read its stream. */
import { once } from "node:events";
import {
  createServer,
  get,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as httpRequest,
  type RequestListener,
} from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { memory, type MemoryStore, memoryStore } from "../../src/backends/memory/index.ts";
import { createConsole } from "../../src/console/create.ts";
import type { AuditEntry, ConsoleOptions } from "../../src/console/options.ts";
import type { Hello, Messages } from "../../src/console/wire.ts";
import type { Backend } from "../../src/contract/backend.ts";
import { type Clock, systemClock } from "../../src/contract/clock.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { eventually } from "../../src/testing/eventually.ts";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  json(): Record<string, unknown>;
}

export interface Counted {
  readonly backend: Backend;
  queries: number;
  inspects: string[];
  /** Set: the store fails so. */
  failure: Error | undefined;
}

function counted(store: MemoryStore): Counted {
  const backend = memory({ store });
  const counts: Counted = { backend, queries: 0, inspects: [], failure: undefined };
  const [query, inspect] = [backend.query.bind(backend), backend.inspect.bind(backend)];
  backend.query = async (prefix) => {
    counts.queries++;
    if (counts.failure !== undefined) throw counts.failure;
    return await query(prefix);
  };
  backend.inspect = async (name) => {
    counts.inspects.push(name);
    return await inspect(name);
  };
  return counts;
}

export class Stage {
  readonly clock: Clock;
  readonly store: MemoryStore;
  readonly counts: Counted;
  readonly locks: Locks;
  readonly audit: AuditEntry[] = [];
  origin = "";

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
    this.store = memoryStore({ clock });
    this.counts = counted(this.store);
    this.locks = createLocks(this.counts.backend, { holder: "console:1", clock });
  }

  /** Locks of another process, as the store sees it. */
  other(holder: string): Locks {
    const locks = createLocks(memory({ store: this.store }), { holder, wait: Infinity, clock: this.clock });
    onTestFinished(() => locks.close({ grace: 0, force: true }));
    return locks;
  }

  async start(options: Partial<ConsoleOptions> = {}): Promise<this> {
    const page = createConsole(this.locks, {
      clock: this.clock,
      authorize: () => "ada",
      audit: (entry) => this.audit.push(entry),
      ...options,
    });
    onTestFinished(() => page.close());
    return await this.serve(page);
  }

  async serve(listener: RequestListener): Promise<this> {
    this.origin = await serve(listener);
    onTestFinished(() => this.locks.close({ grace: 0, force: true }));
    return this;
  }

  ask(path: string, options: AskOptions = {}): Promise<Answer> {
    return ask(`${this.origin}${path}`, options);
  }

  async hello(path = "/"): Promise<Hello> {
    return (await this.ask(`${path}hello`)).json() as unknown as Hello;
  }

  async release(body: object, options: AskOptions = {}): Promise<Answer> {
    const { csrf } = await this.hello();
    return await this.ask("/release", {
      method: "POST",
      body: JSON.stringify(body),
      ...options,
      headers: { "x-holdfast-csrf": csrf, ...options.headers },
    });
  }
}

export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** By hand: fetch() would not send another `Host`. */
export async function ask(url: string, { method = "GET", headers = {}, body }: AskOptions = {}): Promise<Answer> {
  const sent = httpRequest(url, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    agent: false,
  });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const parts: Buffer[] = [];
  for await (const part of answer as AsyncIterable<Buffer>) parts.push(part);
  const text = Buffer.concat(parts).toString();
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    text,
    json: () => JSON.parse(text) as Record<string, unknown>,
  };
}

type Heard = { readonly name: keyof Messages; readonly message: never };

/** One page that is open. */
export class Watcher {
  readonly heard: Heard[] = [];
  readonly response: IncomingMessage;
  #text = "";

  private constructor(response: IncomingMessage, isReading: boolean) {
    this.response = response;
    response.on("error", () => {});
    if (isReading) this.read();
  }

  static async open(
    origin: string,
    {
      path = "/events",
      isReading = true,
      headers = {},
    }: { path?: string; isReading?: boolean; headers?: Record<string, string> } = {},
  ): Promise<Watcher> {
    const sent = get(`${origin}${path}`, { agent: false, headers });
    sent.on("error", () => {});
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const watcher = new Watcher(response, isReading);
    onTestFinished(() => watcher.close());
    return watcher;
  }

  read(): void {
    this.response.on("data", (part: Buffer) => {
      this.#text += part.toString();
      const events = this.#text.split("\n\n");
      this.#text = events.pop() ?? "";
      for (const event of events) {
        const [, name, data] = /^event: (\w+)\ndata: ([^]*)$/.exec(event) ?? [];
        this.heard.push({ name, message: JSON.parse(data ?? "") } as unknown as Heard);
      }
    });
  }

  of<Name extends keyof Messages>(name: Name): readonly Messages[Name][] {
    return this.heard.filter((one) => one.name === name).map(({ message }) => message as Messages[Name]);
  }

  /** The first such event that is right. */
  async hears<Name extends keyof Messages>(
    name: Name,
    isRight: (message: Messages[Name]) => boolean = () => true,
  ): Promise<Messages[Name]> {
    return await eventually(`${name} is heard`, () => this.of(name).find(isRight));
  }

  close(): void {
    this.response.destroy();
  }
}
