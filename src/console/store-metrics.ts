/** The store's figures for Prometheus, of all processes that use it: beside those of this process. */
import { toText } from "../telemetry/prometheus/text.ts";
import type { FullRow } from "./rows.ts";

export interface Looked {
  readonly rows: ReadonlyMap<string, FullRow>;
  readonly isUp: boolean;
}

export function storeText({ rows, isUp }: Looked): string {
  const gauge = (name: string, help: string, value: number): string =>
    toText([{ name, help, type: "gauge", samples: [{ name, labels: {}, value }] }]);
  const up = gauge("holdfast_store_up", "Whether the store has answered.", isUp ? 1 : 0);
  if (!isUp) return up;
  const all = [...rows.values()];
  const sum = (count: (row: FullRow) => number): number => all.reduce((total, row) => total + count(row), 0);
  return [
    up,
    gauge("holdfast_store_locks", "Locks that are held or waited for, by all processes.", all.length),
    gauge(
      "holdfast_store_held",
      "Leases of all processes.",
      sum(({ holders }) => holders.length),
    ),
    gauge(
      "holdfast_store_waiting",
      "Claims and calls of all processes that wait.",
      sum(({ waiting }) => waiting),
    ),
  ].join("");
}
