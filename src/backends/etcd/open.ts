/** Opens `etcd://` and `etcds://` URLs, and the renewer for a worker thread. Node's URL class cannot parse lists of hosts. */
import { readFileSync } from "node:fs";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Renewer } from "../../contract/backend.ts";
import { etcd, type EtcdOptions, openEtcd } from "./options.ts";

const URL_FORM = /^(etcds?):\/\/(?:([^/?#]*)@)?([^/?#@]+)\/?(?:\?([^#]*))?$/i;
const EXAMPLE = "etcd://etcd1:2379,etcd2:2379?base=/locks";

/** Everything that may follow the "?". */
const KNOWN = ["base", "names", "ca", "cert", "key", "servername"] as const;

/** Opens `etcd[s]://[user:password@]host[:port],…[?option=value&…]`. Starts to connect, and does not wait for it. */
export async function openBackend(url: string): Promise<Backend> {
  return etcd(parseUrl(url));
}

/** For a worker thread: it finds the claims that it is to renew by their ids. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  return openEtcd(data as EtcdOptions, true);
}

/** @internal Throws a `TypeError` that repeats no password. */
export function parseUrl(url: string): EtcdOptions {
  const match = URL_FORM.exec(url);
  if (match === null) throw new ArgumentError(`Expected \`url\` to look like ${JSON.stringify(EXAMPLE)}`);
  // A "?" in a password ends it here: what follows must not be shown.
  if (match[4]?.includes("@") === true) {
    throw new ArgumentError('Expected `url` to be percent-encoded: "?" is %3F, and "@" in an option is %40');
  }
  const query = new URLSearchParams(match[4] ?? "");
  for (const name of query.keys()) {
    if (KNOWN.some((known) => known === name)) continue;
    throw new ArgumentError(
      `Expected \`url\` to have options of ${KNOWN.join(", ")} only, got ${JSON.stringify(name)}`,
    );
  }
  const isEncrypted = match[1]?.toLowerCase() === "etcds";
  const [base, names] = [query.get("base"), query.get("names")];
  return {
    endpoints: match[3] as string,
    ...(base === null ? {} : { base }),
    ...(names === null ? {} : { names: names as "escaped" | "paths" }),
    ...(match[2] === undefined ? {} : { auth: toAuth(match[2]) }),
    ...(isEncrypted ? { tls: toTls(query) } : refuseFiles(query)),
  };
}

function toAuth(credentials: string): { readonly user: string; readonly password: string } {
  const colon = credentials.indexOf(":");
  if (colon < 1) throw new ArgumentError("Expected the credentials in `url` to be user:password");
  return { user: decode(credentials.slice(0, colon)), password: decode(credentials.slice(colon + 1)) };
}

/** Files are read once: a certificate that changes needs a new backend. */
function toTls(query: URLSearchParams): Exclude<EtcdOptions["tls"], boolean | undefined> {
  const files = (["ca", "cert", "key"] as const).flatMap((name) => {
    const file = query.get(name);
    return file === null ? [] : [[name, readFileSync(file)] as const];
  });
  const servername = query.get("servername");
  return { ...Object.fromEntries(files), ...(servername === null ? {} : { servername }) };
}

/** A URL that names a certificate means to encrypt. */
function refuseFiles(query: URLSearchParams): Record<string, never> {
  const file = (["ca", "cert", "key", "servername"] as const).find((name) => query.has(name));
  if (file === undefined) return {};
  throw new ArgumentError(`Expected \`url\` to start with "etcds://" where it has the option ${file}`);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ArgumentError("Expected the user:password in `url` to be percent-encoded properly");
  }
}
