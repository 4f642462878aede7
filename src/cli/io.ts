/** What a command may read and write: handed in, so that no command touches the process itself, and every text is masked and harmless. */
import { styleText } from "node:util";

import { toPrintableJson } from "../contract/foreign.ts";
import { maskSecrets, secretsOf } from "../contract/mask-secrets.ts";
import { harmless } from "./format-text.ts";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan" | "inverse";

export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** Writes a line for scripts and people to stdout. */
  print(line: string): void;
  /** As print(), and resolves when the line has left, or to why it could not. From here on no broken output ends the process by itself. */
  deliver(line: string): Promise<NodeJS.ErrnoException | undefined>;
  /** True once something was to be delivered. */
  isCareful(): boolean;
  /** Writes a line for people to stderr. */
  note(line: string): void;
  /** Writes one JSON document; a bigint becomes a decimal string, since a double would round it. */
  json(value: unknown): void;
  /** Colours `text` if `stream` is a terminal that wants colours. */
  style(stream: "stdout" | "stderr", style: Style, text: string): string;
  /** Hides the secrets of `url` in everything printed from now on. */
  hide(url: string): void;
  mask(text: string): string;
  /** What went wrong when something was written to stdout. */
  broken(): NodeJS.ErrnoException | undefined;
}

/** The io of a real process. */
export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process;
  const secrets = new Set<string>();
  const mask = (text: string): string => maskSecrets(text, secrets);
  let broken: NodeJS.ErrnoException | undefined;
  // The stream forgets its errors: only this callback reports every one.
  const write = (text: string, then?: () => void): void =>
    void stdout.write(`${harmless(mask(text))}\n`, (error) => {
      broken ??= error ?? undefined;
      then?.();
    });
  let careful = false;
  return {
    env,
    stdin,
    stdout,
    stderr,
    mask,
    broken: () => broken,
    print: (line) => write(line),
    deliver: (line) => {
      careful = true;
      return new Promise((resolve) => write(line, () => resolve(broken)));
    },
    isCareful: () => careful,
    note: (line) => void stderr.write(`${harmless(mask(line))}\n`),
    json: (value) => write(toPrintableJson(value, 2)),
    style: (stream, style, text) => (wantsColour({ stdout, stderr }[stream], env) ? paint(style, text) : text),
    hide: (url) => {
      for (const secret of secretsOf(url)) secrets.add(secret);
    },
  };
}

/** Colours, whatever the stream is: for those who have asked already. */
export function paint(style: Style, text: string): string {
  // Newer Nodes would look at stdout by themselves, though the text may be for stderr; older ones know no third argument.
  const painted = styleText as (format: Style, text: string, options: { validateStream: boolean }) => string;
  return text === "" ? "" : painted(style, text, { validateStream: false });
}

/** https://no-color.org: any non-empty value switches colours off. */
export function wantsColour(stream: NodeJS.WriteStream, env: Io["env"]): boolean {
  return stream.isTTY && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}
