/** URLs of a foreign layout: those of Redis, with options of the layout's own. */
import { ArgumentError } from "../../../contract/argument-error.ts";
import type { Duration } from "../../../contract/duration.ts";
import { type Endpoint, parseUrl } from "../url.ts";

/** What the URL says of the options in `names`, and the rest of it, read as a URL of Redis. */
export function parseLayoutUrl<Name extends string>(
  url: string,
  layout: string,
  names: readonly Name[],
): { readonly endpoint: Endpoint; readonly own: Readonly<Partial<Record<Name, string>>> } {
  const at = url.indexOf("?");
  const params = new URLSearchParams(at < 0 ? "" : url.slice(at + 1));
  if (params.get("layout") !== layout)
    throw new ArgumentError(`Expected \`url\` to have \`layout=${layout}\` in its query`);
  params.delete("layout");
  const own: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = params.get(name);
    params.delete(name);
    if (value !== null) own[name] = value;
  }
  const endpoint = parseUrl(params.size === 0 ? url.slice(0, at) : `${url.slice(0, at)}?${params.toString()}`, names);
  return { endpoint, own };
}

/** The options of Redis that every layout has. Others are refused, because nothing in a foreign layout would obey them. */
export function commonOptions(endpoint: Endpoint, layout: string): Pick<Endpoint["options"], "prefix" | "idle"> {
  const { prefix, idle, ...others } = endpoint.options;
  const other = Object.entries(others).find(([, value]) => value !== undefined)?.[0];
  if (other === undefined) return { prefix, idle };
  throw new ArgumentError(`Expected no \`${other}\` in \`url\`: layout=${layout} knows nothing of it`);
}

/** Digits alone are milliseconds. Anything else is checked where options are. */
export function durationOf(text: string | undefined): Duration | undefined {
  return text !== undefined && /^\d+$/u.test(text) ? Number(text) : (text as Duration | undefined);
}
