/** What the page knows: rows by name, the server's clock, and the order in which rows are shown. */
import type { Hello, LockPage, LockRow, Overview, Point, RowsMessage } from "../wire.ts";

export type Sort = "name" | "mode" | "holder" | "held" | "left" | "fence" | "waiters";
export type Only = "all" | "waited" | "trouble";
/** `connecting`: nothing was heard yet. */
export type Connection = "connecting" | "live" | "lost" | "busy";

export type Line =
  | { readonly kind: "lock"; readonly row: LockRow }
  | {
      readonly kind: "group";
      readonly prefix: string;
      readonly locks: number;
      readonly held: number;
      readonly waiting: number;
      readonly isOpen: boolean;
    };

const POINTS_MAX = 300;

export class Model {
  readonly rows: Map<string, LockRow> = new Map();
  readonly #texts: WeakMap<LockRow, string> = new WeakMap();
  hello: Hello | undefined;
  overview: Overview | undefined;
  points: Point[] = [];
  page: LockPage | undefined;
  connection: Connection = "connecting";
  hasRows = false;
  sort: Sort = "name";
  isDescending = false;
  filter = "";
  only: Only = "all";
  isGrouped = false;
  readonly closed: Set<string> = new Set();
  lines: readonly Line[] = [];
  shown = 0;
  /** False: the lines have to be made anew. */
  isArranged = false;
  #hasOthers = false;
  #offsetMs = 0;

  /** The server's clock. While the store or the connection is away it goes on. */
  now(): number {
    return performance.now() + this.#offsetMs;
  }

  heardAt(nowMs: number): void {
    this.#offsetMs = nowMs - performance.now();
  }

  takeRows({ reset, rows, gone }: RowsMessage): void {
    if (reset) this.rows.clear();
    for (const name of gone) this.rows.delete(name);
    const isOther = reset || gone.length > 0 || rows.some((row) => !this.#keepsPlace(row));
    for (const row of rows) this.rows.set(row.name, row);
    this.hasRows = true;
    this.isArranged &&= !isOther;
    this.#hasOthers = true;
  }

  /** True: the row goes where the one before was. */
  #keepsPlace(row: LockRow): boolean {
    const before = this.rows.get(row.name);
    if (before === undefined || this.filter !== "" || this.only !== "all" || this.isGrouped) return false;
    return this.#keyOf(before) === this.#keyOf(row);
  }

  takeOverview(overview: Overview): void {
    this.overview = overview;
    if (overview.points.length !== 1) this.points = [...overview.points];
    else if (overview.points[0]!.atMs !== this.points.at(-1)?.atMs) this.points.push(overview.points[0]!);
    if (this.points.length > POINTS_MAX) this.points.splice(0, this.points.length - POINTS_MAX);
  }

  arrange(): void {
    if (this.isArranged) return this.#renew();
    this.isArranged = true;
    this.#hasOthers = false;
    const words = this.filter
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word !== "");
    const rows = [...this.rows.values()].filter(
      (row) => this.#isMeant(row) && words.every((word) => this.#textOf(row).includes(word)),
    );
    const keyed = rows.map((row) => ({ row, key: this.#keyOf(row) }));
    const sign = this.isDescending ? -1 : 1;
    keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.row.name < b.row.name ? -1 : 1));
    this.shown = rows.length;
    const lines = keyed.map(({ row }): Line => ({ kind: "lock", row }));
    this.lines = this.isGrouped ? this.#grouped(lines) : lines;
  }

  /** The order is the same: only the rows in it are others. */
  #renew(): void {
    if (!this.#hasOthers) return;
    this.#hasOthers = false;
    this.lines = this.lines.map((line) => {
      const row = line.kind === "lock" ? this.rows.get(line.row.name) : undefined;
      return row === undefined || (line.kind === "lock" && line.row === row) ? line : { kind: "lock", row };
    });
  }

  #isMeant(row: LockRow): boolean {
    if (this.only === "all") return true;
    if (this.only === "waited") return row.waiting > 0;
    return isTrouble(row);
  }

  #textOf(row: LockRow): string {
    let text = this.#texts.get(row);
    if (text === undefined) {
      const people = [...row.holders, ...row.waiters];
      const metas = people.flatMap(({ meta }) => Object.entries(meta).flat());
      text = [
        row.name,
        row.mode,
        ...people.map(({ holder }) => holder),
        ...row.holders.map(({ fence }) => fence),
        ...metas,
      ]
        .join("\n")
        .toLowerCase();
      this.#texts.set(row, text);
    }
    return text;
  }

  #keyOf(row: LockRow): string | number {
    const [first] = row.holders;
    if (this.sort === "name") return row.name;
    if (this.sort === "mode") return row.limit > 1 ? `limit ${row.limit}` : row.mode;
    if (this.sort === "holder") return first?.holder ?? "\uffff";
    // The longest first where it rises: a lease's age grows as its beginning gets smaller.
    if (this.sort === "held") return first === undefined ? Infinity : -first.sinceMs;
    if (this.sort === "left") return first?.endsMs ?? Infinity;
    if (this.sort === "fence") return (first?.fence ?? "").padStart(20, "0");
    return row.waiting;
  }

  #grouped(lines: readonly Line[]): readonly Line[] {
    const groups = new Map<string, LockRow[]>();
    for (const line of lines) {
      if (line.kind !== "lock") continue;
      const prefix = prefixOf(line.row.name);
      const group = groups.get(prefix);
      if (group === undefined) groups.set(prefix, [line.row]);
      else group.push(line.row);
    }
    const names = [...groups.keys()].toSorted();
    return names.flatMap((prefix): readonly Line[] => {
      const rows = groups.get(prefix)!;
      const held = rows.reduce((sum, { holders }) => sum + holders.length, 0);
      const waiting = rows.reduce((sum, row) => sum + row.waiting, 0);
      const isOpen = !this.closed.has(prefix);
      const head: Line = { kind: "group", prefix, locks: rows.length, held, waiting, isOpen };
      return isOpen ? [head, ...rows.map((row): Line => ({ kind: "lock", row }))] : [head];
    });
  }
}

function isTrouble({ holders, quarantineEndsMs, deadlocked }: LockRow): boolean {
  return deadlocked === true || quarantineEndsMs !== undefined || holders.some(({ late }) => late);
}

/** Up to the first colon, slash or dot. */
function prefixOf(name: string): string {
  return /^[^:/.]*[:/.]/.exec(name)?.[0] ?? name;
}
