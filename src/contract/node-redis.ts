/**
 * Which clients of node-redis (the package `redis`) may be used, by the backend and by the guards. In version 5, commands that
 * wait to be sent while the connection ends get the first answers of the next connection: a grant reaches a claim that it is not for.
 * Commands of the user on the same client displace answers too, so nothing outside of the library can mend it. Version 6 does not write to
 * a socket that has ended, but may read from it, with the same effect; 6.2.1 is the first that lets go of it at once.
 */
import { ArgumentError } from "./argument-error.ts";
import { installedVersion, whyUnsupported } from "./peer-version.ts";

/** The range of the peer in package.json. */
export const NODE_REDIS: readonly string[] = ["6.2.1"];

/** Found once: what is installed does not change while a program runs. */
let installed: { readonly why: string | undefined } | undefined;

/** Throws for a client that is too old. Versions before 6.1.0 are known by the client itself, later ones by what is installed. */
export function refuseOldNodeRedis(client: object): void {
  const why = "_keyPrefix" in client ? (installed ??= { why: whyInstalled() }).why : "this one is older";
  if (why === undefined) return;
  const text = `Expected a client of node-redis ${NODE_REDIS[0]} or later, but ${why}`;
  const reason = "Before that, answers can reach other commands than their own when a connection ends";
  throw new ArgumentError(`${text}. ${reason}: a lock could have two holders. npm install redis@6, or use ioredis`);
}

/** Of `redis`; where that is not there, of the package of it that has the clients, which some programs use alone. */
function whyInstalled(): string | undefined {
  for (const peer of ["redis", "@redis/client"]) {
    const version = installedVersion(peer, import.meta.url);
    if (version !== undefined) return whyUnsupported(peer, version, NODE_REDIS) && `${peer} ${version} is installed`;
  }
  return undefined;
}
