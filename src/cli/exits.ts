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

/** One row a code, for `--help`. */
export function exitTable(names: readonly ExitName[]): readonly (readonly [code: string, meaning: string])[] {
  return names.map((name) => [codeOf(name), MEANINGS[name]]);
}

function codeOf(name: ExitName): string {
  if (name === "child") return "*";
  if (name === "signal") return "128+n";
  return String(EXIT[name]);
}
