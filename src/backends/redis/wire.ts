/**
 * Every text that Holdfast keeps in Redis or sends through it, declared once: names → columns. TypeScript reads and writes by these names,
 * and so do the scripts: scripts/build-lua.mjs inserts the numbers, so RECORD.till in lua/ becomes 1, 13.
 *
 * Processes of several versions share one Redis. A change here changes both sides at once, but not the other versions: wire.test.ts holds
 * the texts of 0.1 against it.
 *
 * A lock is one hash. Its fields:
 *
 *   s         STATE alone: no holder, no waiter; or with ALONE: one exclusive holder with limit 1, no waiter;
 *             or with CROWD: anything else
 *   h<id>     RECORD of a holder; h~<id>: of one that released before its minHold had passed
 *   w<id>     RECORD of a waiter: its end is that of its ticket, and its number is its place in the queue
 *   q<place>  the id that waits at that place; or " <place>" in a gap that others left: its first place names its last, and the other way
 *             round, so a gap of any length costs one read
 *   o<fence>  FORCED: a lease that was ended by force; f<id>: its fence
 *   b         BALLOT: which ballot was voted for last
 *   r         OUTCOME: what the work under a lease came to
 *   e         ELDEST: which of several exclusive holders is the oldest, when that was last asked
 *
 * 0.1 knows neither r nor e, and leaves them alone; they go with the hash, whose life no version shortens.
 *
 * Times are milliseconds of the server's clock.
 */
import { OUTCOME_BYTES_MAX, OUTCOME_KEEP_MAX_MS } from "../../contract/claim.ts";
import { after, digits, layout, type Layout, letter, number, rest, word } from "./columns.ts";

/** Of a fence: texts of 16 digits are in the order of their values. */
const FENCE_DIGITS = 16;

export const LIMIT = {
  /** Scripts count in doubles: above 2^53 fences would repeat. No clock gets here before the year 2255. */
  fence: 9_007_199_250_000_000,
  /** How many grants one message contains. */
  grants: 64,
  /** How many claims one message is about that says no more of each than that there is news. */
  news: 200,
  /** How many readers one call tells that a writer waits, and how many places of a queue one call looks at. */
  portion: 500,
  /** How much of a message is read: more than that many grants need. */
  message: 6400,
  /** Of a claim's 22 characters a message shows these; the others are a secret of 84 bits, which the seal proves. */
  shown: 8,
  seal: 20,
  /** Of an outcome: bytes, and ms. */
  outcome: OUTCOME_BYTES_MAX as number,
  kept: OUTCOME_KEEP_MAX_MS as number,
} as const;

/** The beginnings of a hash's field names. `none` never exists: deleting it first makes a full server (noeviction) accept what follows. */
export const FIELD = {
  state: "s",
  holder: "h",
  kept: "h~",
  waiter: "w",
  place: "q",
  forced: "o",
  forcedFence: "f",
  ballot: "b",
  outcome: "r",
  eldest: "e",
  none: "-",
} as const;

/** What the release of a lease must know about it. */
export const FLAG = { plain: ".", minHold: "!", voted: "v", votedMinHold: "w" } as const;
export const MODE = { exclusive: "x", shared: "s" } as const;

/** Single characters with a meaning. */
export const MARK = {
  /** Before the holder's id, where it is the only claim: see ALONE. */
  alone: " =",
  learned: "=",
  more: "+",
  identity: "@",
  /** A grant whose process listens, and one that must be confirmed first. */
  sure: ":",
  asked: "?",
  forced: "!",
  /** Behind the id of a claim that ends: its minHold counts. */
  keeps: "!",
  seal: ".",
  /** Behind a grant: a claim queues for the lock. In a message, for the claim that begins so, or for all that it grants. */
  wanted: "*",
  /** The lock has an outcome. */
  done: "=",
  /** At the end of a claim's terms: it wants an outcome. To 0.1 a space behind JSON means nothing. */
  wants: " ",
} as const;

type Term =
  | "flag"
  | "mode"
  | "keep"
  | "more"
  | "idle"
  | "limit"
  | "ttl"
  | "delay"
  | "ticket"
  | "minhold"
  | "inbox"
  | "who";

/** What the client writes of its claim. */
export const TERMS: Layout<Term> = layout(
  letter("flag", FLAG),
  after("", letter("mode", MODE)),
  // ttl + lockDelay, ms.
  digits("keep", 12),
  // How many fences the grant has after the first.
  digits("more", 6),
  // How long the hash outlives its last use, ms.
  digits("idle", 12),
  number("limit"),
  number("ttl"),
  number("delay"),
  // How long a silent waiter keeps its place, ms; 0: the claim does not queue.
  number("ticket"),
  number("minhold"),
  word("inbox"),
  // JSON: [holder, meta] or [holder, meta, [waiters, users, [[name, fence], …], 1 if it holds more]]; and MARK.wants.
  rest("who"),
);

/** A claim in the store. `number`: a holder's first fence, a waiter's place. */
export const RECORD: Layout = layout(digits("till", 13), digits("since", 13), digits("number", FENCE_DIGITS), {
  terms: TERMS,
});

/** `last`: the greatest fence that was ever granted. `death`: when the hash may vanish. */
export const STATE: Layout = layout(digits("last", FENCE_DIGITS), digits("death", 13));

export const ALONE: Layout = layout(after(MARK.alone, word("id")), { record: RECORD });

/** `limit`: that of the exclusive claims here, 0 when there are none. `first`: no end is earlier. `latest`: a holder's id, or "-". */
export const CROWD: Layout = layout(
  number("holders"),
  letter("mode", MODE),
  number("limit"),
  number("first"),
  word("latest"),
  number("queued"),
  number("head"),
  number("tail"),
);

/** The whole of field `s` with one holder, and with any number. */
export const STATE_ALONE: Layout = layout({ state: STATE }, after(MARK.alone, word("id")), { record: RECORD });
export const STATE_CROWD: Layout = layout({ state: STATE }, { crowd: CROWD });

/** `who`: JSON { by, reason }. */
export const FORCED: Layout = layout(digits("at", 13), word("id"), rest("who"));

/** `last`: the greatest fence before that ballot. */
export const BALLOT: Layout = layout(word("id"), digits("last", FENCE_DIGITS));

/**
 * Kept until `over`, since `left`; by the lease of claim `id` whose fences begin with `number`. `holder`: JSON without spaces. `value`: as it
 * is.
 */
export const OUTCOME: Layout = layout(
  digits("over", 13),
  digits("left", 13),
  digits("number", FENCE_DIGITS),
  word("id", "[^ ]+"),
  word("holder", "[^ ]+"),
  rest("value"),
);

export const ELDEST: Layout = layout(digits("number", FENCE_DIGITS), word("id"));

/** A grant, as replies and messages say it. */
export const RUN: Layout = layout(number("fence"), after(MARK.more, number("more", 6)));
/** In replies, with {@link MARK.wanted} or nothing. */
export const GRANTED: Layout = layout({ run: RUN }, after("", word("wanted", `[${MARK.wanted}]?`)));

/** Identifies one run of a server; "" without a quarantine. */
const IDENTITY = `(?:${MARK.identity}[0-9a-f]{12})?`;

/** What a claim learns that is still queued. `again`: after how many ms it is worth asking, 0: at the usual pace. */
export const LEARNED: Layout = layout(
  after(MARK.learned, digits("last", FENCE_DIGITS)),
  number("again", 13),
  after("", word("by", IDENTITY)),
);

/** One grant in a message. `seal`: proves that the sender knows the whole id, of which `shown` is the beginning. */
const SHOWN = String.raw`[^\s,:?!*=]{1,${LIMIT.shown}}`;
const SEAL = `[0-9a-f]{${LIMIT.seal}}`;
export const GRANT: Layout = layout(
  word("shown", SHOWN),
  {
    text: layout(
      after("", word("sure", `[${MARK.sure}${MARK.asked}]`)),
      { run: layout(after("", number("fence")), after(MARK.more, digits("more", 6))) },
      after("", word("by", IDENTITY)),
    ),
  },
  after(MARK.seal, word("seal", SEAL)),
);
/** What else a message says of a claim: one of the marks `forced`, `wanted` and `done`. */
export const NEWS: Layout = layout(
  word("shown", SHOWN),
  after("", word("text", `[${MARK.forced}${MARK.wanted}${MARK.done}]`)),
  after(MARK.seal, word("seal", SEAL)),
);

/**
 * Replies that are lists: names → places in the list. `record`: a holder's record, "", or {@link WORD}. `learned`: of one that is queued; with
 * WORD.done, the {@link OUTCOME}.
 */
export const REFUSAL = ["place", "ahead", "now", "record", "learned"] as const;
/** `detail`: the holder's record, the greatest fence, or how many ms the server abstains. */
export const VOTE = ["vote", "now", "server", "detail", "waiters"] as const;

export const WORD = {
  /** Errors. */
  foreign: "HOLDFAST_FOREIGN",
  limit: "HOLDFAST_LIMIT",
  /** Instead of a holder's record. */
  young: "young",
  busy: "busy",
  done: "done",
  /** Votes; and `young`. */
  held: "held",
  low: "low",
  /** To a renewal. */
  gone: "gone ",
  other: "other",
  failed: "!",
  /** Messages. */
  granted: "granted ",
  forced: "forced ",
  freed: "freed",
  wanted: "wanted ",
  finished: "done ",
  /** Instead of a holder's id. */
  nobody: "-",
} as const;

/** What the marker of a server's incarnation holds: see lua/_incarnation.lua. */
export const MARKER = {
  run: "run",
  history: "history",
  who: "who",
  born: "born",
  db: "db",
  since: "since",
  span: "span",
  lag: "lag",
  death: "death",
} as const;

/** Whether the scripts can have granted this fence. */
export function isFence(fence: number): boolean {
  return fence > 0 && fence <= LIMIT.fence;
}

/** A fence as the scripts read it. */
export function fenceText(fence: bigint): string {
  return String(fence).padStart(FENCE_DIGITS, "0");
}
