/** Which members there are, and which to try next. */
import { ArgumentError } from "../../../contract/argument-error.ts";

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

const DEFAULT_PORT = 2379;
const BRACKETED = /^\[([0-9a-fA-F:.]+(?:%[\w.]+)?)\](?::(\d+))?$/;
const PLAIN = /^([^\s:/@,[\]?#]+)(?::(\d+))?$/;

/** Reads `h1:2379,h2,[::1]:2379`. Throws a `TypeError` on anything else. */
export function parseEndpoints(text: string): readonly Endpoint[] {
  return text.split(",").map((part) => {
    const match = BRACKETED.exec(part) ?? PLAIN.exec(part);
    const port = Number(match?.[2] ?? DEFAULT_PORT);
    if (match === null || port < 1 || port > 65_535) {
      throw new ArgumentError(
        `Expected \`endpoints\` to be a list such as "etcd1:2379,etcd2:2379" or "[::1]:2379", got ${JSON.stringify(text)}`,
      );
    }
    return { host: match[1] as string, port };
  });
}

/** Writes an endpoint as people do, and as URLs do. */
export function showEndpoint({ host, port }: Endpoint): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Hands out endpoints in turn. The first is random, which spreads the clients of a cluster over its members. */
export class EndpointRing {
  readonly #endpoints: readonly Endpoint[];
  #next: number;

  constructor(endpoints: readonly Endpoint[]) {
    this.#endpoints = endpoints;
    this.#next = Math.floor(Math.random() * endpoints.length);
  }

  get size(): number {
    return this.#endpoints.length;
  }

  next(): Endpoint {
    const endpoint = this.#endpoints[this.#next % this.#endpoints.length] as Endpoint;
    this.#next++;
    return endpoint;
  }
}
