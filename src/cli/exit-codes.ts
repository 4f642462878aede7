/** The exit codes, in one place: scripts depend on them, so they never change their meaning. */

export const EXIT = {
  ok: 0,
  no: 1,
  usage: 64,
  backend: 69,
  internal: 70,
  notAcquired: 75,
  lost: 76,
  cannotExecute: 126,
  notFound: 127,
} as const;

export type ExitName = keyof typeof EXIT | "child" | "signal";

/** An exit code, and where the usual words do not fit, what it means for this command. */
export type ExitEntry = ExitName | readonly [name: ExitName, meaning: string];

const MEANINGS: Readonly<Record<ExitName, string>> = {
  ok: "done",
  no: "the answer is no; see the description above",
  child: "the command's own exit code",
  usage: "wrong usage; nothing was done",
  backend: "the store cannot be reached, or refused",
  internal: "a fault in holdfast itself",
  notAcquired: "the lock was not free in time (another code with -E)",
  lost: "the lease was lost while the command ran; the command was ended",
  cannotExecute: "the command is not executable",
  notFound: "the command was not found",
  signal: "signal n ended the command, or holdfast while it waited",
};

/** In the order of a table. */
export const ALL_EXITS: readonly ExitName[] = [
  "ok",
  "no",
  "child",
  "usage",
  "backend",
  "internal",
  "notAcquired",
  "lost",
  "cannotExecute",
  "notFound",
  "signal",
];

/** One row a code, for `--help`. Whatever a command does, it may find a fault in holdfast itself. */
export function exitTable(entries: readonly ExitEntry[]): readonly (readonly [code: string, meaning: string])[] {
  const meanings = new Map<ExitName, string>([["internal", MEANINGS.internal]]);
  for (const entry of entries) {
    if (typeof entry === "string") meanings.set(entry, MEANINGS[entry]);
    else meanings.set(...entry);
  }
  return ALL_EXITS.flatMap((name) => {
    const meaning = meanings.get(name);
    return meaning === undefined ? [] : [[codeOf(name), meaning]];
  });
}

function codeOf(name: ExitName): string {
  if (name === "child") return "*";
  if (name === "signal") return "128+n";
  return String(EXIT[name]);
}
