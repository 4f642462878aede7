/** `holdfast show NAME`: everything the store knows about one lock. */
import type { LockHolder, LockSnapshot, LockWaiter } from "../../core/api.ts";
import { formatMs } from "../../contract/duration.ts";
import { askOne } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { nameOf, withLocks } from "../open-store.ts";
import { printable } from "../../contract/foreign.ts";
import { table } from "../format-text.ts";
import { hostAndPid } from "../../core/read-snapshot.ts";
import { leftText, lockJson, metaText, modeText, whoText } from "../format-lock.ts";

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
    const snapshot = await withLocks(io, flags, (store) => askOne(store, name));
    const free = snapshot.held.length + snapshot.pending.length === 0;
    if (flags.has("json")) io.json({ name, free, ...lockJson(snapshot) });
    else if (!flags.has("quiet")) print(io, name, snapshot);
    return free ? EXIT.no : EXIT.ok;
  },
};

function print(io: Io, name: string, { held, pending, forced, quarantineMs = 0, outcome }: LockSnapshot): void {
  io.print(io.style("stdout", "bold", printable(name)));
  if (held.length === 0) io.print("  not held");
  if (quarantineMs > 0) {
    io.print(`  the store may have lost leases, and grants nothing for another ${formatMs(quarantineMs)}`);
  }
  for (const holding of held) printHolding(io, holding);
  if (pending.length > 0) {
    io.print("  waiting");
    for (const line of table(WAITING, pending.map(waitingRow)).slice(1)) io.print(`    ${line}`);
  }
  if (outcome !== undefined) {
    const { fence, holder, ageMs, remainingMs, bytes } = outcome;
    const by = `done ${formatMs(ageMs)} ago by ${printable(holder)} (fence ${fence})`;
    io.print(`  once        ${by}; ${bytes} bytes are kept for another ${formatMs(remainingMs)}`);
  }
  if (forced.length > 0) io.print("  ended by force");
  for (const { fence, by, reason, agoMs } of forced) {
    io.print(`    fence ${fence}, ${formatMs(agoMs)} ago, by ${printable(by)}: ${printable(reason)}`);
  }
}

const WAITING = [{ title: "", right: true }, { title: "" }, { title: "" }, { title: "" }, { title: "" }];

function waitingRow(one: LockWaiter): readonly string[] {
  const since = `for ${formatMs(one.waitingMs)}`;
  const more = one.processWaiters > 0 ? `and ${one.processWaiters} behind it` : "";
  const text = [metaText(one.meta), more].filter((part) => part !== "").join("  ");
  return [`${one.position}.`, whoText(one.holder, one.meta), modeText(one), since, text];
}

function timeLeft({ remainder, remainingMs }: LockHolder): string {
  const left = leftText(remainingMs);
  if (remainder === "minHold") return `${left}: released, and kept until it is as old as its --min-hold`;
  return remainder === "lockDelay"
    ? `${left}: its holder is gone, and it is kept for its --lock-delay`
    : `${left} unless renewed`;
}

function printHolding(io: Io, holding: LockHolder): void {
  const { remainder, processHolders, processWaiters } = holding;
  const { host, pid } = hostAndPid(holding.holder);
  const since = new Date(Date.now() - holding.heldMs).toISOString();
  const rows: (readonly [string, string | undefined])[] = [
    [remainder === undefined ? "held by" : "was held by", whoText(holding.holder, holding.meta)],
    ["host", host],
    ["pid", pid === undefined ? undefined : String(pid)],
    ["app", holding.meta["app"]],
    ["version", holding.meta["version"]],
    ["mode", modeText(holding)],
    ["fence", String(holding.fence)],
    ["held for", `${formatMs(holding.heldMs)} (since ${since})`],
    ["shared by", processHolders > 1 ? `${processHolders} leases of its process` : undefined],
    ["waiting", processWaiters > 0 ? `${processWaiters} in its process` : undefined],
    ["time left", timeLeft(holding)],
    ...Object.entries(holding.meta).filter(([field]) => field !== "app" && field !== "version"),
  ];
  for (const [label, value] of rows) {
    if (value !== undefined)
      io.print(`  ${io.style("stdout", "dim", printable(label).padEnd(11))}  ${printable(value)}`);
  }
}
