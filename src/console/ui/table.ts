/** The table of locks: as many rows as fit on the screen, used again for others while it is scrolled, so that 10,000 cost as much as 40. */
import { modeText, moveBar } from "./bar.ts";
import { h, setText } from "./dom.ts";
import { app, clock, count, plural, visible } from "./format.ts";
import type { Line, Model, Sort } from "./model.ts";
import type { LockRow } from "../wire.ts";

const COLUMNS: readonly (readonly [sort: Sort, title: string])[] = [
  ["name", "Name"],
  ["mode", "Mode"],
  ["holder", "Holder"],
  ["held", "Held for"],
  ["left", "Time left"],
  ["fence", "Fence"],
  ["waiters", "Waiters"],
];
const BEYOND = 6;

interface Slot {
  readonly element: HTMLElement;
  readonly parts: Readonly<Record<string, HTMLElement>>;
  line: Line | undefined;
  index: number;
}

export class Table {
  readonly element: HTMLElement;
  readonly #model: Model;
  readonly #open: (name: string) => void;
  readonly #change: () => void;
  readonly #scroller: HTMLElement;
  readonly #body: HTMLElement;
  readonly #heads: Map<Sort, HTMLElement> = new Map();
  readonly #slots: Slot[] = [];
  readonly #narrow: MediaQueryList = matchMedia("(max-width: 760px)");
  #active = 0;

  constructor(model: Model, open: (name: string) => void, change: () => void) {
    this.#model = model;
    this.#open = open;
    this.#change = change;
    this.#body = h("div", { class: "rows", role: "rowgroup" });
    const head = h(
      "div",
      { class: "head row", role: "row", "aria-rowindex": 1 },
      ...COLUMNS.map(([sort, title]) => this.#headCell(sort, title)),
    );
    this.#scroller = h(
      "div",
      {
        class: "scroller",
        role: "treegrid",
        "aria-label": "Locks",
        tabindex: 0,
        onkeydown: (event: KeyboardEvent) => this.#key(event),
      },
      h("div", { class: "heads", role: "rowgroup" }, head),
      this.#body,
    );
    this.#scroller.addEventListener("scroll", () => this.render(), { passive: true });
    this.#body.addEventListener("click", (event) => this.#click(event));
    this.#narrow.addEventListener("change", () => this.render());
    new ResizeObserver(() => this.render()).observe(this.#scroller);
    this.element = this.#scroller;
  }

  top(): void {
    this.#scroller.scrollTop = 0;
    this.#active = 0;
  }

  focus(): void {
    this.#scroller.focus({ preventScroll: true });
  }

  get #rowPx(): number {
    return this.#narrow.matches ? 68 : 34;
  }

  /** The rows that can be seen, as they are now. */
  render(): void {
    const { lines } = this.#model;
    const height = this.#rowPx;
    const top = this.#scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / height) - BEYOND);
    const last = Math.min(lines.length, Math.ceil((top + this.#scroller.clientHeight) / height) + BEYOND);
    this.#body.style.height = `${lines.length * height}px`;
    this.#scroller.setAttribute("aria-rowcount", String(lines.length + 1));
    while (this.#slots.length < last - first) this.#slots.push(this.#newSlot());
    for (const [at, slot] of this.#slots.entries()) {
      const index = first + at;
      const line = index < last ? lines[index] : undefined;
      slot.element.hidden = line === undefined;
      if (line !== undefined) this.#bind(slot, line, index, height);
      slot.line = line;
    }
    this.#active = Math.min(this.#active, Math.max(0, lines.length - 1));
    const active = this.#slots.find(({ line, index }) => line !== undefined && index === this.#active);
    if (active === undefined) this.#scroller.removeAttribute("aria-activedescendant");
    else this.#scroller.setAttribute("aria-activedescendant", active.element.id);
    for (const [sort, cell] of this.#heads) {
      const isSorted = sort === this.#model.sort;
      cell.setAttribute("aria-sort", isSorted ? (this.#model.isDescending ? "descending" : "ascending") : "none");
    }
    this.move();
  }

  /** What changes with time alone: ages and bars. */
  move(): void {
    const nowMs = this.#model.now();
    for (const { line, parts } of this.#slots) {
      if (line?.kind !== "lock") continue;
      const { row } = line;
      const [first] = row.holders;
      setText(parts["held"]!, first === undefined ? "" : clock(nowMs - first.sinceMs));
      moveBar(parts["left"]!, row, first, nowMs);
      const [next] = row.waiters;
      setText(parts["since"]!, next === undefined ? "" : `${visible(next.holder)} ${clock(nowMs - next.sinceMs)}`);
    }
  }

  #headCell(sort: Sort, title: string): HTMLElement {
    const click = (): void => {
      const isSame = this.#model.sort === sort;
      this.#model.isDescending = isSame ? !this.#model.isDescending : sort === "waiters";
      this.#model.sort = sort;
      this.#change();
    };
    const cell = h(
      "div",
      { class: `cell ${sort}`, role: "columnheader", "aria-sort": "none" },
      h("button", { type: "button", onclick: click }, title),
    );
    this.#heads.set(sort, cell);
    return cell;
  }

  #newSlot(): Slot {
    const part = (name: string, tag: "span" | "a" = "span"): HTMLElement => h(tag, { class: `part-${name}` });
    const parts: Record<string, HTMLElement> = {
      name: h("a", { class: "part-name", tabindex: -1 }),
      chip: part("chip"),
      mode: part("mode"),
      host: part("host"),
      app: part("app"),
      held: part("held"),
      left: h("span", { class: "bar" }, h("span", { class: "fill" }), h("span", { class: "bar-text" })),
      fence: part("fence"),
      waiting: part("waiting"),
      since: part("since"),
      group: part("group"),
    };
    const cell = (name: string, ...inside: readonly HTMLElement[]): HTMLElement =>
      h("div", { class: `cell ${name}`, role: "gridcell" }, ...inside);
    const element = h(
      "div",
      { class: "row", role: "row", id: `row-${this.#slots.length}` },
      cell("name", parts["group"]!, parts["name"]!, parts["chip"]!),
      cell("mode", parts["mode"]!),
      cell("holder", parts["host"]!, parts["app"]!),
      cell("held", parts["held"]!),
      cell("left", parts["left"]!),
      cell("fence", parts["fence"]!),
      cell("waiters", parts["waiting"]!, parts["since"]!),
    );
    this.#body.append(element);
    return { element, parts, line: undefined, index: -1 };
  }

  #bind(slot: Slot, line: Line, index: number, height: number): void {
    const { element, parts } = slot;
    element.style.transform = `translateY(${index * height}px)`;
    element.setAttribute("aria-rowindex", String(index + 2));
    element.classList.toggle("active", index === this.#active);
    slot.index = index;
    // The same row as before needs nothing: rows are replaced, never changed.
    if (slot.line !== undefined && slot.line.kind === "lock" && line.kind === "lock" && slot.line.row === line.row)
      return;
    const isGroup = line.kind === "group";
    element.classList.toggle("group", isGroup);
    element.classList.toggle("waited", !isGroup && line.row.waiting > 0);
    if (isGroup) bindGroup(element, parts, line);
    else bindLock(element, parts, line.row);
  }

  #click(event: MouseEvent): void {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    const slot = this.#slots.find(({ element }) => element.contains(event.target as Node));
    if (slot?.line === undefined || getSelection()?.isCollapsed === false) return;
    event.preventDefault();
    this.#active = slot.index;
    this.#enter(slot.line);
  }

  #enter(line: Line): void {
    if (line.kind === "lock") return this.#open(line.row.name);
    if (line.isOpen) this.#model.closed.add(line.prefix);
    else this.#model.closed.delete(line.prefix);
    this.#change();
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.#scroller) return;
    const page = Math.max(1, Math.floor(this.#scroller.clientHeight / this.#rowPx) - 2);
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: 1,
      ArrowUp: -1,
      j: 1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    const line = this.#model.lines[this.#active];
    if (event.key === "Enter" && line !== undefined) this.#enter(line);
    else if (step !== undefined) this.#go(this.#active + step);
    else return;
    event.preventDefault();
  }

  #go(to: number): void {
    const height = this.#rowPx;
    this.#active = Math.max(0, Math.min(this.#model.lines.length - 1, to));
    const top = this.#active * height;
    const view = this.#scroller;
    const inner = view.clientHeight - this.#body.offsetTop;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + height > view.scrollTop + inner) view.scrollTop = top + height - inner;
    this.render();
  }
}

function bindGroup(element: HTMLElement, parts: Slot["parts"], line: Extract<Line, { kind: "group" }>): void {
  element.setAttribute("aria-expanded", String(line.isOpen));
  setText(parts["group"]!, line.isOpen ? "▾" : "▸");
  setText(parts["name"]!, visible(line.prefix));
  parts["name"]!.removeAttribute("href");
  setText(parts["chip"]!, "");
  setText(parts["mode"]!, plural(line.locks, "lock"));
  setText(parts["host"]!, `${count(line.held)} held`);
  setText(parts["waiting"]!, line.waiting > 0 ? count(line.waiting) : "");
  for (const name of ["app", "held", "fence", "since"]) setText(parts[name]!, "");
  parts["left"]!.hidden = true;
}

function bindLock(element: HTMLElement, parts: Slot["parts"], row: LockRow): void {
  const [first, ...others] = row.holders;
  element.removeAttribute("aria-expanded");
  setText(parts["group"]!, "");
  setText(parts["name"]!, visible(row.name));
  parts["name"]!.setAttribute("href", `#/lock/${encodeURIComponent(row.name)}`);
  const chip = row.deadlocked === true ? "deadlock" : row.holders.some(({ late }) => late) ? "renewal late" : "";
  setText(parts["chip"]!, chip);
  parts["chip"]!.className = `part-chip ${chip === "" ? "" : chip === "deadlock" ? "chip bad" : "chip warn"}`;
  setText(parts["mode"]!, modeText(row));
  setText(parts["host"]!, first === undefined ? "—" : visible(first.holder));
  // Of several, the first stands for all: what they are is on the page of the lock.
  const more = others.length > 0 ? `and ${plural(others.length, "other")}` : undefined;
  setText(parts["app"]!, more ?? (first === undefined ? "" : visible(app(first))));
  setText(parts["fence"]!, first?.fence ?? "");
  setText(parts["waiting"]!, row.waiting > 0 ? count(row.waiting) : "");
  parts["left"]!.hidden = false;
}
