/**
 * Whether a claim waits for the lock that another holds. A renewal looks itself, in its own transaction; between renewals a
 * watch tells a holder that wants to know. It stops with the first news, so that a queue that grows costs its holder nothing more.
 */
import type { Claim } from "../../contract/backend.ts";
import type { EtcdClient } from "./client/client.ts";
import type { KeyValue, Operation } from "./client/kv-messages.ts";
import type { KeyRange } from "./client/watch-messages.ts";
import { type Contender, inOrder, obstacleOf } from "./contenders.ts";
import { below, groupOf, type KeySpan } from "./keys.ts";

/** A claim that holds its lock. */
export interface WantedOf {
  readonly claim: Pick<Claim, "mode" | "limit">;
  /** All keys of the lock. */
  readonly span: KeySpan;
  /** The claim's own. */
  readonly key: Buffer;
}

/** At most so many reads for one claim. */
export const WANTED_READS_MAX = 2;

/** The reads that show whether a claim waits: as few keys as can tell it, however long the queue is. */
export function wantedReads({ claim, span }: WantedOf): readonly Operation[] {
  if (claim.mode === "shared") return strangers(claim, span).map((part) => ({ range: { ...part, ...SOME, limit: 1 } }));
  if (claim.limit === 1) return [{ range: { ...span, ...SOME, limit: 2 } }];
  return [{ range: { ...span, ...SOME, limit: claim.limit + 1, byCreation: "ascending" } }];
}

const SOME = { keysOnly: true } as const;

/** What the answers to {@link wantedReads} mean. */
export function isWanted({ claim, span, key }: WantedOf, found: readonly (readonly KeyValue[])[]): boolean {
  const kvs = found.flat();
  if (claim.mode === "shared") return kvs.length > 0;
  if (claim.limit === 1) return kvs.some((kv) => !kv.key.equals(key));
  const order = inOrder(span.key, kvs);
  return isWantedAt(
    order,
    order.findIndex((one) => one.key.equals(key)),
  );
}

/** The holder at `index` learns of one that waits, if it shares the lock, or is the oldest. */
export function isWantedAt(order: readonly Contender[], index: number): boolean {
  const learns = index === 0 || order[index]?.kind.mode === "shared";
  return learns && order.some((_, at) => obstacleOf(order, at) !== undefined);
}

/** The keys of the lock that are not of the claim's own kind. */
function strangers(kind: Pick<Claim, "mode" | "limit">, span: KeySpan): readonly KeySpan[] {
  const own = below(groupOf(span, kind));
  return [
    { key: span.key, end: own.key },
    { key: own.end, end: span.end },
  ];
}

/** Tells the holder of a lease that a claim has begun to wait. */
export class WantedWatch {
  readonly #client: EtcdClient;
  readonly #of: WantedOf;
  readonly #begun: () => void;
  #unwatch: (() => void) | undefined;
  #isStopped = false;

  /** `begun`: called when one has begun to wait since `revision`. */
  constructor(client: EtcdClient, of: WantedOf, revision: bigint, begun: () => void) {
    this.#client = client;
    this.#of = of;
    this.#begun = begun;
    this.saw(false, revision);
  }

  /** What was seen at `revision`. Once it is wanted, the next that waits is no news. */
  saw(wanted: boolean, revision: bigint): void {
    if (wanted) this.#end();
    else if (this.#unwatch === undefined && !this.#isStopped) this.#watch(revision);
  }

  /** The lease is over. */
  stop(): void {
    this.#isStopped = true;
    this.#end();
  }

  #watch(revision: bigint): void {
    const { claim, span, key } = this.#of;
    const ranges: readonly KeyRange[] = claim.mode === "shared" ? strangers(claim, span) : [span];
    const unwatch = ranges.map((range) =>
      this.#client.watchPuts(range, revision + 1n, {
        changed: (keys) => {
          if (this.#unwatch === end && keys.some((one) => !one.equals(key))) void this.#heard();
        },
        // The next renewal looks, and watches again.
        ended: () => this.#end(end),
      }),
    );
    const end = (): void => {
      for (const stop of unwatch) stop();
    };
    this.#unwatch = end;
  }

  async #heard(): Promise<void> {
    const { claim } = this.#of;
    // Where several may hold, a new key may be one that holds too.
    if (claim.mode === "exclusive" && claim.limit > 1 && !(await this.#look())) return;
    if (this.#isStopped || this.#unwatch === undefined) return;
    this.#end();
    this.#begun();
  }

  async #look(): Promise<boolean> {
    try {
      const { kvs } = await this.#client.txn({ when: [], success: wantedReads(this.#of) });
      return isWanted(this.#of, kvs);
    } catch {
      // A hint: the next renewal says it.
      return false;
    }
  }

  #end(which: (() => void) | undefined = this.#unwatch): void {
    if (which === undefined || which !== this.#unwatch) return;
    this.#unwatch = undefined;
    which();
  }
}
