/** One attempt: all are asked, and a majority decides. Who has not answered by then is still counted in the statistics. */
import { type AnyClient, type Call, run, toTaken } from "../rolling/run-script.ts";
import type { ExecutionStats } from "./api.ts";
import { appliedTo } from "./errors.ts";

/** The longest that a timer can wait. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface Ballot {
  /** True: a majority did it. */
  readonly decided: Promise<boolean>;
  readonly stats: Promise<ExecutionStats>;
  /** Who did it, or has not said that it did not. */
  mayHave(): readonly AnyClient[];
  /** So many have said that they did not do it that a majority cannot. Others may have failed: those prove nothing. */
  isRefused(): boolean;
  /** Those of the clients that did it. */
  readonly fences: readonly bigint[];
}

/** `limitMs`: who has not answered after it counts as against. `report` is called with each error, also those of a minority. */
export function ask(
  clients: ReadonlySet<AnyClient>,
  call: Call,
  limitMs: number,
  report: (error: Error) => void,
): Ballot {
  const votes = new Votes(clients.size);
  const refused = new Set<AnyClient>();
  /** Some of its locks were not there. */
  const incomplete = new Set<AnyClient>();
  const fences: bigint[] = [];
  const against = (client: AnyClient, error: Error): void => {
    if (votes.add(client, error)) report(error);
  };
  const vote = async (client: AnyClient): Promise<void> => {
    const { count, fence } = toTaken(await run(client, call, () => votes.has(client)));
    if (count === call.keys.length) {
      if (votes.add(client) && fence !== undefined) fences.push(fence);
      return;
    }
    incomplete.add(client);
    // Not 0: some of its locks were released.
    if (count === 0) refused.add(client);
    against(client, appliedTo(count, call.keys.length));
  };
  for (const client of clients) {
    vote(client).catch((error: unknown) => against(client, error instanceof Error ? error : new Error(String(error))));
  }
  if (limitMs <= TIMER_MAX_MS) {
    const timer = setTimeout(() => {
      for (const client of clients) against(client, new Error(`No answer within ${limitMs} ms.`));
    }, limitMs);
    void votes.all.then(() => clearTimeout(timer));
  }
  const mayHave = (): AnyClient[] => [...clients].filter((client) => !refused.has(client));
  const isRefused = (): boolean => incomplete.size > clients.size - votes.quorumSize;
  return { decided: votes.decided, stats: votes.all, fences, mayHave, isRefused };
}

/** Counts votes. Of two with one client, the first counts. */
class Votes {
  readonly quorumSize: number;
  readonly decided: Promise<boolean>;
  readonly all: Promise<ExecutionStats>;
  readonly #stats: ExecutionStats;
  #decide: (isDone: boolean) => void = () => {};
  #complete: (stats: ExecutionStats) => void = () => {};

  constructor(membershipSize: number) {
    const quorumSize = Math.floor(membershipSize / 2) + 1;
    this.quorumSize = quorumSize;
    this.#stats = { membershipSize, quorumSize, votesFor: new Set(), votesAgainst: new Map() };
    this.decided = new Promise((resolve) => (this.#decide = resolve));
    this.all = new Promise((resolve) => (this.#complete = resolve));
  }

  has(client: AnyClient): boolean {
    return this.#stats.votesFor.has(client) || this.#stats.votesAgainst.has(client);
  }

  /** False: the client has voted before. */
  add(client: AnyClient, error?: Error): boolean {
    const { membershipSize, quorumSize, votesFor, votesAgainst } = this.#stats;
    if (this.has(client)) return false;
    if (error === undefined) votesFor.add(client);
    else votesAgainst.set(client, error);
    if (votesFor.size >= quorumSize) this.#decide(true);
    // Of an even number, one half is no majority, and the other half cannot become one.
    else if (votesAgainst.size > membershipSize - quorumSize) this.#decide(false);
    if (votesFor.size + votesAgainst.size === membershipSize) this.#complete(this.#stats);
    return true;
  }
}
