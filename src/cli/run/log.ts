/** What run and elect say while stdout is the command's: lines for people, or one JSON object a line, all on stderr. */
import type { Flags } from "../flags.ts";
import type { Io } from "../io.ts";
import { printable, toPrintableJson } from "../../contract/foreign.ts";
import { helpFor } from "../../contract/help.ts";

/** Events that are errors, by the code whose page explains them. */
const CODES: Readonly<Record<string, string>> = { "not-acquired": "ERR_LOCK_TIMEOUT", lost: "ERR_LOCK_LOST" };

export interface Log {
  /** Something a person should know, unless they asked for silence. */
  say(event: string, message: string, facts: Readonly<Record<string, unknown>>): void;
  /** Something for those who asked for more, with `-v` or `--json`. */
  detail(event: string, message: string, facts: Readonly<Record<string, unknown>>): void;
}

export function runLog(io: Io, flags: Flags): Log {
  const json = flags.has("json");
  const write: Log["say"] = (event, message, facts) => {
    const code = CODES[event];
    const help = code === undefined ? {} : { help: helpFor(code) };
    if (json) return io.note(toPrintableJson({ event, message: io.mask(message), ...facts, ...help }));
    io.note(`${io.style("stderr", "yellow", "holdfast:")} ${printable(message)}`);
    if (code !== undefined) io.note(`  More: ${helpFor(code)}`);
  };
  const silent: Log["say"] = () => {};
  return {
    say: flags.has("quiet") && !json ? silent : write,
    detail: json || flags.has("verbose") ? write : silent,
  };
}
