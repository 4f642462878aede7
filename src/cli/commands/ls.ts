/** `holdfast ls`: every lock that is held or waited for. */
import type { Snapshot } from "../format-lock.ts";
import { formatMs } from "../../contract/duration.ts";
import { ask } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { withLocks } from "../open-store.ts";
import { printable } from "../../contract/foreign.ts";
import { table } from "../format-text.ts";
import { countWaiters } from "../../core/read-snapshot.ts";
import { leftText, modeText, snapshotJson, whoText } from "../format-lock.ts";

export const lsCommand: Command = {
  spec: {
    name: "ls",
    summary: "List the locks that are held or waited for",
    usage: ["ls [PREFIX] [--json]"],
    flags: {},
    examples: [
      ["holdfast ls", "all locks of this store"],
      ["holdfast ls invoice:", "those whose names start with invoice:"],
      ["holdfast ls -q", "names only, one a line"],
      ["holdfast ls --json", "for scripts: held, pending, forced"],
    ],
    exits: ["ok", "usage", "backend"],
    completes: "lock",
  },
  async run(io, flags) {
    const snapshot = await withLocks(io, flags, (store) => ask(store, flags.positionals[0] ?? ""));
    if (flags.has("json")) io.json(snapshotJson(snapshot));
    else if (flags.has("quiet")) for (const name of names(snapshot)) io.print(printable(name));
    else printTable(io, snapshot);
    return EXIT.ok;
  },
};

function names({ held, pending }: Snapshot): readonly string[] {
  return [...new Set([...held, ...pending].map(({ name }) => name))].toSorted();
}

function printTable(io: Io, snapshot: Snapshot): void {
  const rows = names(snapshot).flatMap((name) => rowsOf(name, snapshot));
  if (rows.length === 0) {
    io.note("No lock is held or waited for.");
    return;
  }
  const [heading = "", ...lines] = table(
    [
      { title: "NAME" },
      { title: "MODE" },
      { title: "HOLDER" },
      { title: "HELD FOR", right: true },
      { title: "LEFT", right: true },
      { title: "FENCE", right: true },
      { title: "WAITERS", right: true },
    ],
    rows,
  );
  io.print(io.style("stdout", "bold", heading));
  for (const line of lines) io.print(line);
}

function rowsOf(name: string, { held, pending }: Snapshot): readonly (readonly string[])[] {
  const waiters = pending.filter((one) => one.name === name);
  const holders = held.filter((one) => one.name === name);
  const count = String(countWaiters({ held: holders, pending: waiters }));
  if (holders.length === 0) return [[printable(name), modeText(waiters[0]!), "(none)", "", "", "", count]];
  return holders.map((one) => [
    printable(name),
    modeText(one),
    whoText(one.holder, one.meta),
    formatMs(one.heldMs),
    leftText(one.remainingMs),
    String(one.fence),
    count,
  ]);
}
