/** How a lock is used, in words; and how much of a lease's time is left, as a bar that moves. */
import { setText } from "./dom.ts";
import { clock } from "./format.ts";
import type { HolderView, LockRow } from "../wire.ts";

/** The smaller the time left, the more it matters. */
const LOW = 0.2;

/** How many hold it of how many may. */
export function modeText({ limit, mode, holders }: LockRow): string {
  if (limit > 1) return `${holders.length} of ${limit}`;
  if (mode === "exclusive") return "exclusive";
  return holders.length > 1 ? `shared × ${holders.length}` : "shared";
}

/** The part of a lease's time that is left, as far as its whole is known. */
export function moveBar(
  bar: HTMLElement,
  row: Pick<LockRow, "quarantineEndsMs">,
  holder: HolderView | undefined,
  nowMs: number,
): void {
  const [fill, text] = bar.children as unknown as [HTMLElement, HTMLElement];
  const { endsMs = null, fullMs = null } = holder ?? {};
  let [part, says, look] = [0, "", ""];
  if (row.quarantineEndsMs !== undefined)
    [part, says, look] = [0, `quarantine ${clock(row.quarantineEndsMs - nowMs)}`, "bad"];
  else if (holder === undefined) says = "free";
  else if (endsMs === null || fullMs === null) [part, says] = [1, "while it lives"];
  else {
    const leftMs = Math.max(0, endsMs - nowMs);
    part = Math.min(1, leftMs / Math.max(1, fullMs));
    says = holder.remainder === undefined ? clock(leftMs) : `${holder.remainder} ${clock(leftMs)}`;
    look = holder.remainder !== undefined ? "rest" : holder.late ? "warn" : part < LOW ? "low" : "";
  }
  fill.style.transform = `scaleX(${part.toFixed(3)})`;
  const className = `bar ${look}`;
  if (bar.className !== className) bar.className = className;
  setText(text, says);
}
