/** Parses the arguments of one command, and says plainly what is wrong with them. */
import { parseArgs } from "node:util";

import { formatMs } from "../contract/duration.ts";
import { UsageError } from "./usage-error.ts";
import { parseDurationMs } from "./duration-flag.ts";
import { nearest } from "./suggest.ts";

export interface FlagSpec {
  readonly short?: string | undefined;
  /** What the value is called in the help. Absent: the flag takes none. */
  readonly value?: string | undefined;
  readonly help: string;
  readonly multiple?: boolean | undefined;
  /** The longest value. @default 4096 */
  readonly max?: number | undefined;
}

const VALUE_MAX = 4096;

export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

/** Every command has these. */
export const COMMON_FLAGS: FlagSpecs = {
  url: { value: "URL", help: "the store, or @env:NAME (else $HOLDFAST_URL, else file: on this machine)" },
  "url-file": { value: "FILE", help: "the store, from a file: for URLs with a password" },
  json: { help: "print one JSON document" },
  quiet: { short: "q", help: "say less" },
  verbose: { short: "v", help: "say more" },
  help: { short: "h", help: "print this help" },
};

export interface Flags {
  readonly positionals: readonly string[];
  /** What follows `--`. Absent when there is no `--`. */
  readonly rest: readonly string[] | undefined;
  has(name: string): boolean;
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  /** A duration between the two bounds. `Infinity` only where `maxMs` is. */
  durationMs(name: string, range?: { minMs?: number; maxMs?: number }): number | undefined;
  integer(name: string, range: { min: number; max: number }): number | undefined;
}

export function parseFlags(command: string, specs: FlagSpecs, args: readonly string[]): Flags {
  const all: FlagSpecs = { ...COMMON_FLAGS, ...specs };
  const wrong = (message: string): UsageError => new UsageError(message, command);
  const given = new Map<string, string[]>();
  const positionals: string[] = [];
  const { before, rest } = split(args);
  for (const token of tokensOf(all, before)) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const spec = Object.hasOwn(all, token.name) ? all[token.name] : undefined;
    if (spec === undefined) throw wrong(unknownFlag(token.rawName, all));
    const value = valueOf(token, spec, wrong);
    if (given.has(token.name) && spec.value !== undefined && spec.multiple !== true) {
      throw wrong(`${token.rawName} is given twice`);
    }
    given.set(token.name, [...(given.get(token.name) ?? []), value]);
  }
  return { ...reader(given, wrong), positionals, rest };
}

type Token = NonNullable<ReturnType<typeof parseArgs>["tokens"]>[number];
type OptionToken = Extract<Token, { kind: "option" }>;

function split(args: readonly string[]): { before: readonly string[]; rest: readonly string[] | undefined } {
  const at = args.indexOf("--");
  return at < 0 ? { before: args, rest: undefined } : { before: args.slice(0, at), rest: args.slice(at + 1) };
}

function tokensOf(specs: FlagSpecs, args: readonly string[]): readonly Token[] {
  const options = Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => [
      name,
      {
        type: spec.value === undefined ? ("boolean" as const) : ("string" as const),
        ...(spec.short === undefined ? {} : { short: spec.short }),
        multiple: true,
      },
    ]),
  );
  return parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true }).tokens;
}

function valueOf(token: OptionToken, spec: FlagSpec, wrong: (message: string) => UsageError): string {
  if (spec.value === undefined) {
    if (token.value !== undefined) throw wrong(`${token.rawName} takes no value`);
    return "";
  }
  const missing = token.value === undefined || (!token.inlineValue && /^-./.test(token.value));
  if (missing) throw wrong(`${token.rawName} needs a value: ${token.rawName} ${spec.value}`);
  const max = spec.max ?? VALUE_MAX;
  if (token.value.length > max) throw wrong(`${token.rawName} is too long: at most ${max} characters`);
  return token.value;
}

function unknownFlag(rawName: string, specs: FlagSpecs): string {
  const names = Object.entries(specs).flatMap(([name, spec]) => [
    `--${name}`,
    ...(spec.short === undefined ? [] : [`-${spec.short}`]),
  ]);
  const meant = nearest(rawName, rawName.startsWith("--") ? names.filter((name) => name.startsWith("--")) : names);
  return `there is no flag ${rawName}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

function reader(
  given: ReadonlyMap<string, readonly string[]>,
  wrong: (message: string) => UsageError,
): Omit<Flags, "positionals" | "rest"> {
  const text = (name: string): string | undefined => given.get(name)?.at(-1);
  return {
    has: (name) => given.has(name),
    text,
    texts: (name) => given.get(name) ?? [],
    durationMs: (name, { minMs = 1, maxMs = Number.MAX_SAFE_INTEGER } = {}) => {
      const value = text(name);
      if (value === undefined) return undefined;
      const ms = parseDurationMs(value);
      if (ms === undefined) {
        throw wrong(`--${name} ${JSON.stringify(value)} is not a duration, such as 500ms, 30s, 5m or 1h`);
      }
      if (ms < minMs) throw wrong(`--${name} must be at least ${formatMs(minMs)}`);
      if (ms > maxMs) throw wrong(`--${name} must be at most ${formatMs(maxMs)}`);
      return ms;
    },
    integer: (name, { min, max }) => {
      const value = text(name);
      if (value === undefined) return undefined;
      const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
      if (!(number >= min && number <= max)) throw wrong(`--${name} must be a whole number from ${min} to ${max}`);
      return number;
    },
  };
}
