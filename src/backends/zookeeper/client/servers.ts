/** Which servers there are, and which to try next: shuffled, and resolved again in every round. */
import { ArgumentError } from "../../../contract/argument-error.ts";
import { lookup } from "node:dns/promises";

export interface Server {
  readonly host: string;
  readonly port: number;
}

/** One address to dial; `host` is the name it came from, which a certificate must match. */
export interface Address extends Server {
  readonly address: string;
}

export type Resolve = (host: string) => Promise<readonly string[]>;

const DEFAULT_PORT = 2181;
const BRACKETED = /^\[([0-9a-fA-F:.]+(?:%[\w.]+)?)\](?::(\d+))?$/;
const PLAIN = /^([^\s:/@,[\]?#]+)(?::(\d+))?$/;

/** Reads `h1:2181,h2,[::1]:2181`. Throws a `TypeError` on anything else. */
export function parseServers(text: string): readonly Server[] {
  return text.split(",").map((part) => {
    const match = BRACKETED.exec(part) ?? PLAIN.exec(part);
    const port = Number(match?.[2] ?? DEFAULT_PORT);
    if (match === null || port < 1 || port > 65_535) {
      throw new ArgumentError(
        `Expected \`servers\` to be a list such as "zk1:2181,zk2:2181" or "[::1]:2181", got ${JSON.stringify(text)}`,
      );
    }
    return { host: match[1] as string, port };
  });
}

/** Writes a server as people do. */
export function showServer({ host, port }: Server): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

async function resolveAll(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}

/** Hands out addresses, each once per round. Names are resolved at the start of a round, so moved servers are found. */
export class ServerRounds {
  readonly #servers: readonly Server[];
  readonly #resolve: Resolve;
  #left: Address[] = [];

  constructor(servers: readonly Server[], resolve: Resolve = resolveAll) {
    this.#servers = servers;
    this.#resolve = resolve;
  }

  /** How many addresses are left in this round. */
  get left(): number {
    return this.#left.length;
  }

  async next(): Promise<Address> {
    if (this.#left.length === 0) this.#left = await this.#round();
    return this.#left.pop() as Address;
  }

  async #round(): Promise<Address[]> {
    const outcomes = await Promise.allSettled(
      this.#servers.map(async ({ host, port }) => {
        const addresses = await this.#resolve(host);
        return addresses.map((address) => ({ host, port, address }));
      }),
    );
    const found = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? outcome.value : []));
    if (found.length > 0) return shuffle(found);
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    throw failed?.reason ?? new Error("no server has an address");
  }
}

/** Spreads the clients of an ensemble over its servers. Nothing depends on how well. */
function shuffle<T>(items: T[]): T[] {
  for (let end = items.length - 1; end > 0; end--) {
    const other = Math.floor(Math.random() * (end + 1));
    [items[end], items[other]] = [items[other] as T, items[end] as T];
  }
  return items;
}
