/** `holdfast top --by wait`: for whom it was waited, the most first, as lines of text. */
import { formatMs } from "../../contract/duration.ts";
import { printable } from "../../contract/foreign.ts";
import { fit, padEnd, padStart } from "../format-text.ts";
import type { WaitRow } from "../../core/wait-samples.ts";

const WAITERS = 8;
const WAITED = 9;

interface WaitState {
  readonly waits: readonly WaitRow[];
  readonly filter: string;
  readonly descending: boolean;
  readonly offset: number;
}

export function waitRows({ waits, filter, descending }: WaitState): readonly WaitRow[] {
  const wanted = filter.toLowerCase();
  const text = ({ name, holders }: WaitRow): string => [name, ...holders.map(({ holder }) => holder)].join(" ");
  const matching = waits.filter((row) => text(row).toLowerCase().includes(wanted));
  return matching.toSorted((a, b) => (descending ? b.waitMs - a.waitMs : a.waitMs - b.waitMs));
}

/** The heading, then the rows, at most `width` wide. */
export function waitTable(state: WaitState, width: number, room: number): readonly string[] {
  const shown = waitRows(state).slice(state.offset, state.offset + room);
  const longest = Math.max(5, ...shown.map(({ name }) => printable(name).length));
  const name = Math.min(longest, Math.max(8, Math.floor(width / 3)));
  const line = (cells: readonly [string, string, string, string]): string =>
    fit(
      [padEnd(fit(cells[0], name), name), padStart(cells[1], WAITERS), padStart(cells[2], WAITED), cells[3]].join("  "),
      width,
    );
  return [
    line(["NAME", "WAITERS", `WAITED${state.descending ? "▾" : "▴"}`, "FOR"]),
    ...shown.map((row) =>
      line([printable(row.name), row.waiting === 0 ? "" : String(row.waiting), formatMs(row.waitMs), forText(row)]),
    ),
  ];
}

/** `80 % web-3:812 import, 20 % web-1:7`. */
function forText({ holders, otherMs, unknownMs, waitMs }: WaitRow): string {
  const parts = [
    ...holders.map(({ holder, reason, waitMs: ms }) => ({
      who: reason === undefined ? holder : `${holder} ${reason}`,
      ms,
    })),
    { who: "others", ms: otherMs },
    { who: "(not known)", ms: unknownMs },
  ];
  return parts
    .map(({ who, ms }) => ({ who, percent: Math.round((100 * ms) / Math.max(1, waitMs)) }))
    .filter(({ percent }) => percent > 0)
    .toSorted((a, b) => b.percent - a.percent)
    .map(({ who, percent }) => `${percent} % ${printable(who)}`)
    .join(", ");
}
