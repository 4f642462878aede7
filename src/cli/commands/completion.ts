/** `holdfast completion SHELL`: completions made from the commands' own data. */
import type { Command, CommandEntry, CommandSpec } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { EXIT } from "../exit-codes.ts";
import { COMMON_FLAGS, type FlagSpecs } from "../flags.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** Gets the list of commands, itself among them. */
export function completionOf(entries: readonly CommandEntry[]): Command {
  return {
    spec: {
      name: "completion",
      summary: "Print completions for bash, zsh or fish",
      usage: ["completion bash|zsh|fish"],
      flags: {},
      examples: [
        ["source <(holdfast completion bash)", "for this shell; put it into ~/.bashrc"],
        ["holdfast completion zsh > ~/.zfunc/_holdfast", "a folder in $fpath, before compinit"],
        ["holdfast completion fish > ~/.config/fish/completions/holdfast.fish", ""],
      ],
      exits: ["ok", "usage"],
      completes: SHELLS,
    },
    async run(io, flags) {
      const [shell] = flags.positionals;
      const specs = await allSpecs(entries);
      if (shell === "bash") io.print(bash(specs));
      else if (shell === "zsh") io.print(zsh(specs));
      else if (shell === "fish") io.print(fish(specs));
      else throw new UsageError(`for which shell? ${SHELLS.join(", ")}`, "completion");
      return EXIT.ok;
    },
  };
}

/** What a shell needs to know of a command. */
interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly flags: FlagSpecs;
  readonly completes: CommandSpec["completes"];
}

async function allSpecs(entries: readonly CommandEntry[]): Promise<readonly Completed[]> {
  const commands = await Promise.all(entries.map(async (entry) => ({ entry, command: await entry.load() })));
  return commands.map(({ entry: { name, summary }, command }) =>
    typeof command === "function"
      ? { name, summary, flags: {}, completes: undefined }
      : {
          name,
          summary,
          flags: { ...command.spec.flags, ...COMMON_FLAGS, ...command.spec.flags },
          completes: command.spec.completes,
        },
  );
}

function words(flags: FlagSpecs): string {
  return Object.entries(flags)
    .flatMap(([name, { short }]) => (short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`]))
    .join(" ");
}

/** Locks are completed by asking the store, quietly; a store that does not answer completes nothing. */
const NAMES = "holdfast ls -q 2>/dev/null";

/** The names of locks are foreign text: they are compared and quoted, never given to `compgen -W`, which would evaluate them. */
function bash(specs: readonly Completed[]): string {
  const cases = specs.map(({ name, flags, completes }) => {
    const fixed = completes === undefined || completes === "lock" ? "" : completes.join(" ");
    return `    ${name}) flags="${words(flags)}" fixed="${fixed}" locks=${completes === "lock" ? 1 : 0} ;;`;
  });
  return `# holdfast completion for bash
_holdfast() {
  local current="\${COMP_WORDS[COMP_CWORD]}" flags="" fixed="" locks=0 name i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    # What follows -- is a command of its own.
    if [[ "\${COMP_WORDS[i]}" == "--" ]]; then
      if ((COMP_CWORD == i + 1)); then COMPREPLY=($(compgen -c -- "$current")); else compopt -o default 2>/dev/null; fi
      return
    fi
  done
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "${specs.map(({ name }) => name).join(" ")} help" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif ((locks)); then
    while IFS= read -r name; do
      if [[ "$name" == "$current"* ]]; then COMPREPLY+=("$(printf %q "$name")"); fi
    done < <(${NAMES})
  else
    COMPREPLY=($(compgen -W "$fixed" -- "$current"))
  fi
}
complete -F _holdfast holdfast`;
}

function zsh(specs: readonly Completed[]): string {
  const described = specs.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
  const cases = specs.map(({ name, flags, completes }) => {
    const options = Object.entries(flags).flatMap(([flag, { short, value, help }]) => {
      const text = help.replaceAll(/[[\]:]/g, " ");
      const tail = value === undefined ? "" : `:${value}:`;
      return [`--${flag}`, ...(short === undefined ? [] : [`-${short}`])].map((form) =>
        quoted(`${form}[${text}]${tail}`),
      );
    });
    const first = zshArgument(completes);
    return `    ${name}) _arguments ${[...options, ...first].join(" ")} ;;`;
  });
  return `#compdef holdfast
# holdfast completion for zsh
_holdfast_locks() {
  local -a names
  names=("\${(@f)$(${NAMES})}")
  compadd -- "\${names[@]}"
}
_holdfast() {
  # Not "commands": that is zsh's own table of programs, which is needed below.
  local -a subcommands
  subcommands=(
${described.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command subcommands
    return
  fi
  # What follows -- is a command of its own.
  local at=\${words[(i)--]}
  if ((at < CURRENT)); then
    shift $at words
    ((CURRENT -= at))
    _normal -p holdfast
    return
  fi
  local command="\${words[2]}"
  shift words
  ((CURRENT--))
  case "$command" in
${cases.join("\n")}
  esac
}
if [[ "\${funcstack[1]}" == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`;
}

function zshArgument(completes: CommandSpec["completes"]): readonly string[] {
  if (completes === undefined) return [];
  return completes === "lock" ? ["'1:lock:_holdfast_locks'"] : [quoted(`1:name:(${completes.join(" ")})`)];
}

function fish(specs: readonly Completed[]): string {
  const lines = specs.flatMap(({ name, summary, flags, completes }) => {
    const here = `complete -c holdfast -n '__fish_seen_subcommand_from ${name}; and not __holdfast_has_command'`;
    return [
      `complete -c holdfast -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ...Object.entries(flags).map(([flag, { short, value, help }]) => {
        const forms = `-l ${flag}${short === undefined ? "" : ` -s ${short}`}${value === undefined ? "" : " -x"}`;
        return `${here} ${forms} -d ${quoted(help)}`;
      }),
      ...(completes === undefined ? [] : [`${here} -f -a '${fishArgument(completes)}'`]),
    ];
  });
  return ["# holdfast completion for fish", FISH_COMMAND, ...lines].join("\n");
}

/** What follows -- is a command of its own, and fish knows how to complete that. */
const FISH_COMMAND = `function __holdfast_has_command
  contains -- -- (commandline -opc)
end
function __holdfast_complete_command
  set -l words (commandline -opc)
  set -l at (contains -i -- -- $words)
  set -l before (string escape -- $words[(math $at + 1)..-1])
  complete -C (string join ' ' -- $before (commandline -ct))
end
complete -c holdfast -n __holdfast_has_command -x -a '(__holdfast_complete_command)'`;

function fishArgument(completes: NonNullable<CommandSpec["completes"]>): string {
  return completes === "lock" ? `(${NAMES})` : completes.join(" ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
