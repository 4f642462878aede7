/**
 * Which store a command works on, and what of it the processes that it starts may know: a URL may hold a password, and
 * neither arguments nor the environment of a child are places for one.
 */
import { resolve } from "node:path";

import { defaultUrl, resolveUrl } from "../backends/url-source.ts";
import { UsageError } from "./usage-error.ts";
import type { Flags, FlagSpec } from "./flags.ts";
import type { Io } from "./io.ts";
import { maskSecrets, withoutSecrets } from "../contract/mask-secrets.ts";

export interface StoreUrl {
  readonly url: string;
  /** What a child gets as HOLDFAST_URL: leads to the same store, and holds no secret that the child would not have anyway. */
  readonly handed: string;
}

export const PASS_URL_FLAG: FlagSpec = { help: "let the command have HOLDFAST_URL with the password of --url" };

const found = new WeakMap<Flags, StoreUrl>();

/** `--url` or `--url-file`, else `HOLDFAST_URL`, else the embedded store of this machine. */
export function storeUrl(io: Io, flags: Flags): StoreUrl {
  const known = found.get(flags);
  if (known !== undefined) return known;
  const made = find(io, flags);
  io.hide(made.url);
  found.set(flags, made);
  return made;
}

function find(io: Io, flags: Flags): StoreUrl {
  const [text, file] = [flags.text("url"), flags.text("url-file")];
  if (text !== undefined && file !== undefined) throw new UsageError("--url and --url-file exclude each other");
  if (file !== undefined) return viaFile(io, file, "--url-file");
  if (text === undefined) return { url: defaultUrl(io.env), handed: io.env["HOLDFAST_URL"] ?? "file:" };
  if (text.trim() === "") {
    throw new UsageError("--url is empty: name a store, or leave it out to use HOLDFAST_URL or file: on this machine");
  }
  if (text.startsWith("@file:")) return viaFile(io, text.slice("@file:".length), "--url");
  if (text.startsWith("@")) return { url: resolveUrl(text, io.env, "--url"), handed: text };
  const bare = withoutSecrets(text);
  if (bare === text) return { url: text, handed: text };
  io.hide(text);
  warn(io, flags);
  return { url: text, handed: flags.has("pass-url") ? text : bare };
}

function viaFile(io: Io, path: string, what: string): StoreUrl {
  if (path === "") throw new UsageError(`${what} names no file`);
  const source = `@file:${resolve(path)}`;
  return { url: resolveUrl(source, io.env, what), handed: source };
}

/** From here on `ps` no longer shows it; a process that ran `ps` before has seen it. */
function warn(io: Io, flags: Flags): void {
  process.title = maskSecrets(["holdfast", ...process.argv.slice(2)].join(" "));
  if (flags.has("quiet")) return;
  io.note(
    "holdfast: every user of this machine can read the password in --url (`ps`, and the shell's history): put the URL into a file (--url-file FILE) or a variable (HOLDFAST_URL, --url @env:NAME)",
  );
}
