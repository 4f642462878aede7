/** `holdfast deadlocks`: those who wait for each other, in all processes that use the store. */
import type { Deadlock, DeadlockMember } from "../../contract/deadlock.ts";
import type { Snapshot } from "../../contract/backend.ts";
import { declined } from "../../contract/declined.ts";
import { formatMs } from "../../contract/duration.ts";
import { printable } from "../../contract/foreign.ts";
import { onAbort } from "../../contract/on-abort.ts";
import { byLock, DeadlockGraph, marksOf } from "../../core/deadlock-graph.ts";
import { toDeadlock } from "../../core/deadlock-words.ts";
import { checkedSnapshot } from "../../core/snapshot.ts";
import { patiently } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { metaText } from "../format-lock.ts";
import { type OpenStore, withLocks } from "../open-store.ts";
import { UsageError } from "../usage-error.ts";

/** What is not there any more after this long was none. */
const AGAIN_MS = 1000;

export const deadlocksCommand: Command = {
  spec: {
    name: "deadlocks",
    summary: "Show who waits for each other",
    usage: ["deadlocks [PREFIX] [--json | --dot]"],
    about: [
      "Looks at all locks twice, a second apart, and shows the callers that waited for each other both times: who holds what, and waits for what. Exits with 0 when there are none, and with 1 when there are some.",
      "Only functions of run() and its like count. What a process says of its own queue may be as old as a third of a ttl. A PREFIX hides deadlocks that go through other locks too.",
    ],
    flags: { dot: { help: "print a graph for Graphviz" } },
    examples: [
      ["holdfast deadlocks", "each deadlock, with its callers"],
      ["holdfast deadlocks --dot | dot -Tsvg > deadlocks.svg", "a picture of them"],
      ["holdfast deadlocks -q || page-someone", "the exit code only"],
    ],
    exits: [["ok", "there are none"], ["no", "there is at least one"], "usage", "backend"],
    completes: "lock",
  },
  async run(io, flags) {
    if (flags.has("dot") && flags.has("json")) throw new UsageError("--dot and --json: choose one", "deadlocks");
    const prefix = flags.positionals[0] ?? "";
    const found = await withLocks(io, flags, (store) => findDeadlocks(store, prefix));
    if (flags.has("json")) io.json({ deadlocks: found });
    else if (flags.has("dot")) io.print(toDot(found));
    else if (!flags.has("quiet")) print(io, found);
    return found.length === 0 ? EXIT.ok : EXIT.no;
  },
};

async function findDeadlocks({ backend }: OpenStore, prefix: string): Promise<readonly Deadlock[]> {
  const { name, can = {} } = backend;
  if (can.waiters !== true) throw declined(name, can, "waiters", "");
  const ask = (signal: AbortSignal): Promise<Snapshot> =>
    new Promise((resolve, reject) => {
      onAbort(signal, reject);
      backend.query(prefix).then(resolve, reject);
    });
  const look = async (): Promise<Snapshot> => checkedSnapshot(name, "query", await patiently(name, ask));
  const suspects = new DeadlockGraph(byLock(await look())).knots();
  if (suspects.length === 0) return [];
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  const graph = new DeadlockGraph(byLock(await look()), new Set(suspects.flatMap(marksOf)));
  return graph.knots().map((knot) => toDeadlock(graph, knot));
}

function print(io: Io, found: readonly Deadlock[]): void {
  if (found.length === 0) return io.note("No deadlock was seen.");
  for (const [at, { members }] of found.entries()) {
    io.print(io.style("stdout", "bold", `deadlock ${at + 1} of ${found.length}`));
    for (const member of members) for (const line of memberLines(member)) io.print(`  ${line}`);
  }
}

function memberLines({ holder, waitsFor, mode, waitingMs, holds, meta }: DeadlockMember): readonly string[] {
  const since = waitingMs === undefined ? "behind a lease of its own process" : `for ${formatMs(waitingMs)}`;
  const says = metaText(meta);
  return [
    `${printable(holder)}${says === "" ? "" : `  ${says}`}`,
    ...holds.map(({ name, fence }) => `  holds      ${printable(name)} (fence ${fence})`),
    `  waits for  ${printable(waitsFor)}${mode === "shared" ? " (shared)" : ""}, ${since}`,
  ];
}

/** A caller points to the lock that it waits for, and a lock to the caller that holds it. */
function toDot(found: readonly Deadlock[]): string {
  const text = (value: string): string => printable(value).replaceAll(/["\\]/g, "\\$&");
  const lockId = (name: string): string => `"${text(name)}"`;
  const lines = found.flatMap(({ members }, at) =>
    members.flatMap(({ holder, waitsFor, holds }, index) => {
      // A line break, which no name has here: no lock can be taken for a caller.
      const caller = `"${at + 1}.${index + 1}\\n${text(holder)}"`;
      return [
        `  ${caller} [shape=ellipse];`,
        `  ${caller} -> ${lockId(waitsFor)} [label="waits for"];`,
        ...holds.map(({ name, fence }) => `  ${lockId(name)} -> ${caller} [label="held by, fence ${fence}"];`),
      ];
    }),
  );
  return ["digraph deadlocks {", "  node [shape=box];", ...lines, "}"].join("\n");
}
