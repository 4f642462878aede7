/** Opens `zk://` and `zookeeper://` URLs. Node's URL class cannot parse lists of hosts, hence this parser. */
import { readFileSync } from "node:fs";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend } from "../../contract/backend.ts";
import type { Duration } from "../../contract/duration.ts";
import { type AclChoice, parseAcl } from "./client/acl.ts";
import type { Dialect } from "./paths.ts";
import { zookeeper, type ZooKeeperOptions } from "./options.ts";

const URL_FORM = /^(?:zk|zookeeper):\/\/(?:([^/?#]*)@)?([^/?#@]+)(\/[^?#]*)?(?:\?([^#]*))?$/i;
const EXAMPLE = "zk://zk1:2181,zk2:2181/chroot?session=40s";

/** Everything that may follow the "?". */
const KNOWN = ["session", "base", "names", "dialect", "acl", "auth", "tls", "ca", "cert", "key"] as const;

/** Opens `zk://[user:password@]host[:port],…[/chroot][?option=value&…]`. Starts to connect, and does not wait for it. */
export async function openBackend(url: string): Promise<Backend> {
  return zookeeper(parseUrl(url));
}

/** @internal Throws a `TypeError` that repeats no password. */
export function parseUrl(url: string): ZooKeeperOptions {
  const match = URL_FORM.exec(url);
  if (match === null) throw new ArgumentError(`Expected \`url\` to look like ${JSON.stringify(EXAMPLE)}`);
  const query = new URLSearchParams(match[4] ?? "");
  for (const name of query.keys()) {
    if (KNOWN.some((known) => known === name)) continue;
    throw new ArgumentError(
      `Expected \`url\` to have options of ${KNOWN.join(", ")} only, got ${JSON.stringify(name)}`,
    );
  }
  const credentials = match[1] === undefined ? query.get("auth") : decode(match[1], "user:password");
  return {
    servers: match[2] as string,
    ...optional("chroot", chrootOf(match[3])),
    ...optional("session", query.get("session") as Duration | null),
    ...optional("base", query.get("base")),
    ...optional("names", query.get("names") as "escaped" | "paths" | null),
    ...optional("dialect", query.get("dialect") as Dialect | null),
    ...optional("acl", aclOf(query.get("acl"))),
    ...optional("auth", credentials === null ? null : toAuth(credentials)),
    ...optional("tls", toTls(query)),
  };
}

function optional<K extends keyof ZooKeeperOptions>(
  name: K,
  value: ZooKeeperOptions[K] | null,
): ZooKeeperOptions | object {
  return value === null ? {} : { [name]: value };
}

function chrootOf(path: string | undefined): string | null {
  const chroot = decode(path ?? "", "chroot").replace(/\/+$/, "");
  return chroot === "" ? null : chroot;
}

function aclOf(text: string | null): AclChoice | null {
  return text === null ? null : parseAcl(text);
}

function toAuth(credentials: string): { readonly user: string; readonly password: string } {
  const colon = credentials.indexOf(":");
  if (colon < 1) throw new ArgumentError("Expected the credentials in `url` to be user:password");
  return { user: credentials.slice(0, colon), password: credentials.slice(colon + 1) };
}

/** Files are read once: a certificate that changes needs a new backend. */
function toTls(query: URLSearchParams): ZooKeeperOptions["tls"] | null {
  const flag = query.get("tls");
  const files = (["ca", "cert", "key"] as const).flatMap((name) => {
    const file = query.get(name);
    return file === null ? [] : [[name, readFileSync(file)] as const];
  });
  if (flag !== null && flag !== "true" && flag !== "false") {
    throw new ArgumentError('Expected `tls` in `url` to be "true" or "false"');
  }
  if (flag === "false" || (flag === null && files.length === 0)) return null;
  return Object.fromEntries(files);
}

function decode(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ArgumentError(`Expected the ${what} in \`url\` to be percent-encoded properly`);
  }
}
