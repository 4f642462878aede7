/** The queue for a lock, read from the names of its nodes: Curator's, kazoo's and ours. */
import type { Mode } from "../../contract/backend.ts";

export interface Contender {
  readonly name: string;
  readonly mode: Mode;
  /** The text before the sequence number: it shows which library's recipe made the node. */
  readonly kind: string;
  readonly sequence: number;
  /** False: made by another library. */
  readonly isOurs: boolean;
  /** True: made by a claim that does not queue. It goes as soon as the claim is refused. */
  readonly isTry: boolean;
}

const CONTENDER = /(lock-|__READ__|__WRIT__|__lock__|__rlock__|lease-)(-?\d{10})$/;
/** A UUID of version 8, with Curator's dashes or kazoo's none: see `guidOf()`. */
const OURS = /^(?:_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-|[0-9a-f]{12}8[0-9a-f]{19}__)/;
/** The same with the variant bits that {@link guidOf} gives to tries. */
const TRY = /^(?:_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[c-f]|[0-9a-f]{12}8[0-9a-f]{3}[c-f][0-9a-f]{15}__)/;
const SHARED = new Set(["__READ__", "__rlock__"]);

export function parseContender(name: string): Contender | undefined {
  const match = CONTENDER.exec(name);
  if (match === null) return undefined;
  const kind = match[1] as string;
  return {
    name,
    mode: SHARED.has(kind) ? "shared" : "exclusive",
    kind,
    sequence: Number(match[2]),
    isOurs: OURS.test(name),
    isTry: TRY.test(name),
  };
}

/**
 * The contenders, ours and those of other libraries, in the order of their sequence numbers, which come from one counter. It
 * has 32 bits and wraps to negative numbers, so the order is that of serial numbers, not of texts.
 */
export function inOrder(children: readonly string[]): readonly Contender[] {
  const found: Contender[] = [];
  for (const child of children) {
    const contender = parseContender(child);
    if (contender !== undefined) found.push(contender);
  }
  return found.toSorted((a, b) => (a.sequence - b.sequence) | 0 || (a.name < b.name ? -1 : 1));
}

/** The holders: all contenders before the first exclusive one, or that one if it is the first. */
export function holdersOf(order: readonly Contender[]): readonly Contender[] {
  const firstExclusive = order.findIndex(({ mode }) => mode === "exclusive");
  return firstExclusive === -1 ? order : order.slice(0, Math.max(1, firstExclusive));
}

/**
 * The contender that must go before the one at `index` can hold: for an exclusive one the one just before it, for a shared
 * one the last exclusive one before it. `undefined`: it holds. Watching only this node avoids a thundering herd.
 */
export function blockedBy(order: readonly Contender[], index: number): Contender | undefined {
  if (order[index]?.mode === "exclusive") return order[index - 1];
  return order.slice(0, index).findLast(({ mode }) => mode === "exclusive");
}

/**
 * Who waits for the holder `name` to let go. Empty also where another holder is the one to do so: of several that a limit lets
 * hold, the oldest. Tries wait for nothing.
 */
export function waitersOn(order: readonly Contender[], limit: number, name: string): readonly Contender[] {
  if (limit > 1) return order[0]?.name === name ? order.slice(limit).filter(({ isTry }) => !isTry) : [];
  const holders = holdersOf(order);
  if (holders.length === order.length || !holders.some((holder) => holder.name === name)) return [];
  const rest = order.slice(holders.length).filter(({ isTry }) => !isTry);
  // Readers behind the try of a writer wait for that only.
  return rest.slice(holdersOf([...holders, ...rest]).length - holders.length);
}

const LAST_SEQUENCE = 2 ** 31 - 1;
const NEAR = 1_000_000;

/**
 * Whether the sequence numbers end. Where other libraries contend too, the wrap breaks mutual exclusion: Curator and kazoo
 * compare the numbers as texts, and every newer node comes first in their order.
 */
export function overflow(order: readonly Contender[]): "none" | "near" | "broken" {
  const [first] = order;
  const last = order.at(-1);
  if (first === undefined || last === undefined) return "none";
  const wrapped = first.sequence < 0 || last.sequence < 0;
  if (wrapped && order.some(({ isOurs }) => !isOurs)) return "broken";
  return !wrapped && last.sequence > LAST_SEQUENCE - NEAR ? "near" : "none";
}
