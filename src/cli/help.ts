/** Help texts, made from the same data that parses the flags, so that they cannot disagree. */
import type { CommandSpec } from "./command.ts";
import { helpFor } from "../contract/help.ts";
import { ALL_EXITS, exitTable } from "./exit-codes.ts";
import { COMMON_FLAGS, type FlagSpec } from "./flags.ts";
import type { Io } from "./io.ts";

export function commandHelp(io: Io, spec: CommandSpec): string {
  const heading = (text: string): string => io.style("stdout", "bold", text);
  const flags = Object.entries({ ...spec.flags, ...COMMON_FLAGS, ...spec.flags }).map(([name, flag]) =>
    flagRow(name, flag),
  );
  return [
    `${spec.summary}.`,
    "",
    heading("Usage"),
    ...spec.usage.map((line) => `  holdfast ${line}`),
    ...(spec.about ?? []).flatMap((paragraph) => ["", ...wrap(paragraph, 78)]),
    "",
    heading("Flags"),
    ...columns(flags),
    "",
    heading("Examples"),
    ...columns(spec.examples.map(([command, meaning]) => [command, `# ${meaning}`])),
    "",
    heading("Exit codes"),
    ...columns(exitTable(spec.exits)),
  ].join("\n");
}

export function overview(io: Io, version: string, commands: readonly (readonly [string, string])[]): string {
  const heading = (text: string): string => io.style("stdout", "bold", text);
  return [
    `holdfast ${version}: a lock between processes and machines, from the command line.`,
    "",
    heading("Usage"),
    "  holdfast COMMAND [ARGUMENTS] [FLAGS]",
    "",
    heading("Commands"),
    ...columns(commands),
    "",
    heading("Start here"),
    ...columns([
      ['holdfast run hello -- echo "mine alone"', "# one at a time on this machine, no server"],
      ["holdfast run nightly -n -- ./backup.sh", "# skip if it runs already"],
      ["holdfast ls", "# who holds what"],
    ]),
    "",
    heading("Exit codes"),
    ...columns(exitTable(ALL_EXITS)),
    `  More: ${helpFor("exit-codes")}`,
    "",
    "`holdfast COMMAND --help` says more about each.",
  ].join("\n");
}

function flagRow(name: string, flag: FlagSpec): readonly [string, string] {
  const short = flag.short === undefined ? "    " : `-${flag.short}, `;
  return [`${short}--${name}${flag.value === undefined ? "" : ` ${flag.value}`}`, flag.help];
}

function columns(rows: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`);
}

function wrap(paragraph: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of paragraph.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
