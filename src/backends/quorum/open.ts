/**
 * Opens `redlock:` URLs: `redlock://host:port,host:port,host:port?durable=true&maxTtl=30s&…`.
 *
 * `user:password@` before the first host, and a `/database` after the last, apply to all hosts; a host may have its own
 * `user:password@`. `tls=true` is for all. Options that are not the quorum's own go to every member, as in a `redis:` URL;
 * with `layout=plain` clients of Redlock and ours exclude each other.
 */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Member } from "../../contract/backend.ts";
import type { Duration } from "../../contract/duration.ts";
import type { QuorumOptions } from "./options.ts";
import { quorum } from "./backend.ts";

interface Address {
  readonly url: string;
  readonly label: string;
}

export interface OpenMembers {
  readonly members: readonly Member[];
  readonly options: QuorumOptions;
}

const URL_PATTERN = /^redlock:\/\/([^/?#]+)(\/\d*)?(?:\?([^#]*))?$/i;
const HOST_PATTERN = /^(?:([^@]*)@)?(\[[0-9a-f:.]+\]|[^:[\]@]+)(?::(\d{1,5}))?$/i;

export async function openBackend(url: string): Promise<Backend> {
  const { members, options } = await openMembers(url);
  return quorum(members, options);
}

/** Opens the members without making a quorum of them: for the doctor. */
export async function openMembers(url: string): Promise<OpenMembers> {
  const { addresses, options, layout } = parseUrl(url);
  const { openMember } = layout === "plain" ? await import("../redis-plain/open.ts") : await import("../redis/open.ts");
  const members: Member[] = [];
  try {
    for (const address of addresses) members.push(await openMember(address.url));
  } catch (cause) {
    await Promise.all(members.map((member) => member.close()));
    throw cause;
  }
  return { members, options: { ...options, labels: addresses.map(({ label }) => label) } };
}

/** @internal Never repeats the URL in an error: it may hold a password. */
export function parseUrl(url: string): {
  readonly addresses: readonly Address[];
  readonly options: QuorumOptions;
  /** "plain": the members' keys are those of Redlock. */
  readonly layout: string | undefined;
} {
  const [, hosts, database = "", query = ""] = URL_PATTERN.exec(url) ?? [];
  if (hosts === undefined) {
    throw new ArgumentError('Expected `url` to look like "redlock://host:port,host:port,host:port?maxTtl=30s"');
  }
  const params = new URLSearchParams(query);
  const scheme = flag("tls", take(params, "tls")) === true ? "rediss" : "redis";
  const options = takeOptions(params);
  const layout = params.get("layout") ?? undefined;
  const rest = params.size === 0 ? "" : `?${params.toString()}`;
  let shared = "";
  const addresses = hosts.split(",").map((text, at): Address => {
    const [, login, host, port = "6379"] = HOST_PATTERN.exec(text) ?? [];
    if (host === undefined || Number(port) > 65_535) {
      throw new ArgumentError(
        `Expected host ${at + 1} of \`url\` to look like "host:port" or "user:password@host:port"`,
      );
    }
    if (at === 0 && login !== undefined) shared = login;
    const as = login ?? shared;
    const label = `${host}:${port}`;
    return { url: `${scheme}://${as === "" ? "" : `${as}@`}${label}${database}${rest}`, label };
  });
  return { addresses, options, layout };
}

/** Takes the quorum's own options out of the query; their values are checked where they are used. */
function takeOptions(params: URLSearchParams): QuorumOptions {
  return {
    maxTtl: duration(take(params, "maxTtl")),
    durable: flag("durable", take(params, "durable")),
    memberWait: duration(take(params, "memberWait")),
    maxClockOffset: duration(take(params, "maxClockOffset")),
    allowEviction: flag("allowEviction", take(params, "allowEviction")),
  };
}

function take(params: URLSearchParams, name: string): string | undefined {
  const value = params.get(name) ?? undefined;
  params.delete(name);
  return value;
}

function duration(text: string | undefined): Duration | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : (text as Duration | undefined);
}

function flag(name: string, text: string | undefined): boolean | undefined {
  if (text === undefined || text === "true" || text === "false")
    return text === undefined ? undefined : text === "true";
  throw new ArgumentError(
    `Expected \`${name}\` in \`url\` to be true or false, got ${JSON.stringify(text.slice(0, 20))}`,
  );
}
