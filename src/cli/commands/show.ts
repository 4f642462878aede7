/** `holdfast show NAME`: everything the store knows about one lock. */
import type { Holding, Snapshot, Waiting } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { ask } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { nameOf, withLocks } from "../open-store.ts";
import { printable } from "../../contract/foreign.ts";
import { table } from "../format-text.ts";
import { hostAndPid, leftText, metaText, modeText, only, snapshotJson, whoText } from "../format-lock.ts";

export const showCommand: Command = {
  spec: {
    name: "show",
    summary: "Show one lock: holders, waiters, forced releases",
    usage: ["show NAME [--json]"],
    about: ["Exits with 0 when the lock is held or waited for, and with 1 when it is free."],
    flags: {},
    examples: [
      ["holdfast show deploy", "holder, fence, time left, waiters in order"],
      ["holdfast show deploy --json | jq -r .held[0].fence", "the fence, for `holdfast release`"],
      ["holdfast show deploy -q || echo free", "the exit code only"],
    ],
    exits: [["ok", "it is held or waited for"], ["no", "it is free"], "usage", "backend"],
    completes: "lock",
  },
  async run(io, flags) {
    const name = nameOf(flags, "show");
    const snapshot = await withLocks(io, flags, async (store) => only(name, await ask(store, name)));
    const free = snapshot.held.length + snapshot.pending.length === 0;
    if (flags.has("json")) io.json({ name, free, ...snapshotJson(snapshot) });
    else if (!flags.has("quiet")) print(io, name, snapshot);
    return free ? EXIT.no : EXIT.ok;
  },
};

function print(io: Io, name: string, { held, pending, forced }: Snapshot): void {
  io.print(io.style("stdout", "bold", printable(name)));
  if (held.length === 0) io.print("  not held");
  for (const holding of held) printHolding(io, holding);
  if (pending.length > 0) {
    io.print("  waiting");
    for (const line of table(WAITING, pending.map(waitingRow)).slice(1)) io.print(`    ${line}`);
  }
  if (forced.length > 0) io.print("  ended by force");
  for (const { fence, by, reason, agoMs } of forced) {
    io.print(`    fence ${fence}, ${formatMs(agoMs)} ago, by ${printable(by)}: ${printable(reason)}`);
  }
}

const WAITING = [{ title: "", right: true }, { title: "" }, { title: "" }, { title: "" }, { title: "" }];

function waitingRow(one: Waiting): readonly string[] {
  const since = `for ${formatMs(one.waitingMs)}`;
  return [`${one.position}.`, whoText(one.holder, one.meta), modeText(one), since, metaText(one.meta)];
}

function printHolding(io: Io, holding: Holding): void {
  const { host, pid } = hostAndPid(holding.holder);
  const since = new Date(Date.now() - holding.heldMs).toISOString();
  const rows: (readonly [string, string | undefined])[] = [
    ["held by", whoText(holding.holder, holding.meta)],
    ["host", host],
    ["pid", pid === undefined ? undefined : String(pid)],
    ["app", holding.meta["app"]],
    ["version", holding.meta["version"]],
    ["mode", modeText(holding)],
    ["fence", String(holding.fence)],
    ["held for", `${formatMs(holding.heldMs)} (since ${since})`],
    ["time left", `${leftText(holding.remainingMs)} unless renewed`],
    ...Object.entries(holding.meta).filter(([field]) => field !== "app" && field !== "version"),
  ];
  for (const [label, value] of rows) {
    if (value !== undefined)
      io.print(`  ${io.style("stdout", "dim", printable(label).padEnd(10))}  ${printable(value)}`);
  }
}
