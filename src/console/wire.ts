/**
 * What the server of the console sends to its page. Times are milliseconds of the server's monotonic clock, and every message says what
 * that clock shows: so rows do not change while time passes. Fences are texts: a double would round them.
 */

export type Meta = Readonly<Record<string, string>>;
export type Mode = "exclusive" | "shared";

/** A process, taken apart for people. */
export interface Who {
  readonly holder: string;
  readonly host: string;
  readonly pid?: number | undefined;
  readonly app?: string | undefined;
  readonly version?: string | undefined;
}

export interface HolderView extends Who {
  /** The same at every look. */
  readonly key: string;
  readonly fence: string;
  readonly mode: Mode;
  readonly sinceMs: number;
  /** Null: as long as its process lives. */
  readonly endsMs: number | null;
  /** The most that was seen to be left of it: the whole of the bar. */
  readonly fullMs: number | null;
  readonly meta: Meta;
  /** How many functions or leases of its process share it. */
  readonly users: number;
  /** How many of its process wait behind it, besides those that are listed. */
  readonly behind: number;
  readonly remainder?: "minHold" | "lockDelay" | undefined;
  /** It was seen to be renewed. Of others it is not known whether they ever will be. */
  readonly renewed: boolean;
  /** It was renewed before, and less than half of its time is left. */
  readonly late: boolean;
}

export interface WaiterView extends Who {
  readonly key: string;
  readonly mode: Mode;
  readonly position: number;
  readonly sinceMs: number;
  readonly behind: number;
  readonly meta: Meta;
}

/** A lock that is held or waited for. */
export interface LockRow {
  readonly name: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holders: readonly HolderView[];
  /** The first of them; the page of the lock has all. */
  readonly waiters: readonly WaiterView[];
  /** All who wait, also in their processes behind others. */
  readonly waiting: number;
  /** Until when the store grants nothing. */
  readonly quarantineEndsMs?: number | undefined;
  readonly deadlocked?: true | undefined;
}

/** Part of a lock's past. */
export interface Segment {
  readonly kind: "hold" | "wait";
  readonly holder: string;
  readonly fence?: string | undefined;
  readonly mode: Mode;
  readonly sinceMs: number;
  /** When it was last seen. */
  readonly seenMs: number;
  /** When it was over, or was first seen to be. Absent: it goes on. */
  readonly endMs?: number | undefined;
  /** `over`: released, as far as can be seen. `out`: its time ran out. */
  readonly end?: "over" | "forced" | "lost" | "out" | undefined;
  /** True: known to the instant, from events of the console's own process. */
  readonly exact?: true | undefined;
}

export interface ForcedView {
  readonly fence: string;
  readonly by: string;
  readonly reason: string;
  readonly atMs: number;
}

export interface OutcomeView {
  readonly fence: string;
  readonly holder: string;
  readonly bytes: number;
  readonly atMs: number;
  readonly endsMs: number;
}

export interface DeadlockMemberView {
  readonly holder: string;
  readonly waitsFor: string;
  readonly holds: readonly { readonly name: string; readonly fence: string }[];
  readonly waitingMs?: number | undefined;
}

export interface DeadlockView {
  readonly members: readonly DeadlockMemberView[];
  readonly description: string;
}

/** One lock. */
export interface LockPage {
  readonly name: string;
  /** Absent: it is neither held nor waited for. */
  readonly row?: LockRow | undefined;
  readonly timeline: readonly Segment[];
  /** When no one watched: nothing is known of these times. */
  readonly unwatched: readonly (readonly [fromMs: number, toMs: number])[];
  readonly forced: readonly ForcedView[];
  readonly outcome?: OutcomeView | undefined;
  readonly deadlocks: readonly DeadlockView[];
}

export interface SpreadView {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface ContendedView {
  readonly name: string;
  readonly waiting: number;
  readonly waitMs: number;
  readonly holders: readonly {
    readonly holder: string;
    readonly reason?: string | undefined;
    readonly waitMs: number;
  }[];
}

/** Figures, from one of two sources: the looks at the store, or the events of the console's own process. */
export interface Figures {
  readonly acquiresPerSecond: number;
  readonly wait: SpreadView;
  readonly hold: SpreadView;
  readonly lost: number;
  readonly renewalsLate: number;
  readonly contended: readonly ContendedView[];
}

export interface Point {
  readonly atMs: number;
  readonly held: number;
  readonly waiting: number;
  readonly acquires: number;
}

export interface Finding {
  readonly level: "good" | "weak" | "broken" | "unknown";
  readonly text: string;
}

export interface StoreView {
  readonly state: "asking" | "up" | "down";
  readonly backend?: string | undefined;
  /** How long its last answer took. */
  readonly answerMs?: number | undefined;
  readonly answeredMs?: number | undefined;
  readonly error?: string | undefined;
  readonly findings?: readonly Finding[] | undefined;
  readonly findingsError?: string | undefined;
}

export interface Overview {
  readonly nowMs: number;
  readonly store: StoreView;
  readonly viewers: number;
  readonly locks: number;
  readonly held: number;
  readonly waiting: number;
  readonly forced: number;
  readonly seen: Figures;
  /** Absent: this process has used no locks since it is watched. */
  readonly own?: Figures | undefined;
  readonly deadlocks: readonly DeadlockView[];
  /** One for each look, the last ones first sent whole and then one by one. */
  readonly points: readonly Point[];
}

export interface RowsMessage {
  readonly nowMs: number;
  /** True: forget all rows before. */
  readonly reset: boolean;
  readonly rows: readonly LockRow[];
  readonly gone: readonly string[];
}

export interface LockMessage {
  readonly nowMs: number;
  readonly page: LockPage;
}

/** The events of the one stream, by name. */
export interface Messages {
  readonly stream: { readonly id: string };
  readonly rows: RowsMessage;
  readonly overview: Overview;
  readonly lock: LockMessage;
}

/** What a page asks for first. */
export interface Hello {
  readonly who: string;
  readonly csrf: string;
  readonly canRelease: boolean;
  readonly title: string;
  readonly traceUrl?: string | undefined;
  readonly everyMs: number;
}

/** Why a request was refused. */
export interface Refusal {
  readonly code: "login" | "forbidden" | "csrf" | "read-only" | "bad-request" | "busy" | "host" | "store" | "gone";
  readonly message: string;
}
