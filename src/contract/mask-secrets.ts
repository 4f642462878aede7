/**
 * Hides passwords in what is printed or logged: messages, errors of client libraries, JSON. Every step takes time in
 * proportion to the text, because the text may come from a store, and be made to take long.
 */

const HIDDEN = "***";
const SECRET_PARAM = new RegExp("pass|secret|token|auth|credential|api[-_]?key", "i");
/** Where a URL ends for sure. A password with such a character in it is only found where the whole URL is known. */
const BREAK = /([\s"`<>]+)/;
const SCHEME_END = /[a-z][a-z0-9+.-]{0,40}$/i;
/** A host as it stands in a URL, without a login. */
const HOST = /^(?:\[[^\]]*\]|[^:[\]]*)(?::\d*)?$/;
/** Neither part can contain what begins the next, so that nothing is looked at twice. */
const QUERY_PARAM = /([?&;])([^=&;?\s#]+)=([^&;\s#"']*)/g;

/** What a field of this name holds is a secret, whatever it looks like. */
export function isSecretName(name: string): boolean {
  return SECRET_PARAM.test(name);
}

/** The secrets in a URL, raw and decoded, longest first: what must never be printed. */
export function secretsOf(url: string): readonly string[] {
  const secrets = new Set<string>();
  addForms(secrets, loginIn(url)?.text ?? "");
  for (const host of authorityOf(url).hosts) {
    const password = passwordOf(host);
    addForms(secrets, password);
    // Where it holds an @ itself, some take the first one for its end.
    addForms(secrets, password.split("@", 1)[0] ?? "");
  }
  for (const [, , name = "", value = ""] of url.matchAll(QUERY_PARAM)) {
    if (isSecretName(name)) addForms(secrets, value);
  }
  return [...secrets].toSorted((a, b) => b.length - a.length);
}

/** The same URL without its passwords, and without the users that they belong to. */
export function withoutSecrets(url: string): string {
  const { start, hosts, rest } = authorityOf(url);
  const bare = hosts.map((host) => (passwordOf(host) === "" ? host : host.slice(host.lastIndexOf("@") + 1))).join(",");
  const at = rest.indexOf("?");
  if (at < 0) return start + bare + rest;
  const pairs = rest.slice(at + 1).split("&");
  const kept = pairs.filter((pair) => !isSecretName(pair.split("=", 1)[0] ?? ""));
  return start + bare + rest.slice(0, at) + (kept.length === 0 ? "" : `?${kept.join("&")}`);
}

/** Masks the passwords of every URL in `text`, and each of the `known` secrets wherever it stands. */
export function maskSecrets(text: string, known: Iterable<string> = []): string {
  let masked = text.includes("://") ? text.split(BREAK).map(maskWord).join("") : text;
  masked = masked.replace(QUERY_PARAM, (whole, mark: string, name: string) =>
    isSecretName(name) ? `${mark}${name}=${HIDDEN}` : whole,
  );
  for (const secret of known) masked = masked.replaceAll(secret, HIDDEN);
  return masked;
}

function maskWord(word: string): string {
  const login = loginIn(word);
  return login === undefined ? word : `${word.slice(0, login.from)}${HIDDEN}${word.slice(login.to)}`;
}

/** The password of the first `scheme://user:password@` in a word: up to the last @, because a raw password may hold one. */
function loginIn(word: string): { readonly text: string; readonly from: number; readonly to: number } | undefined {
  const schemeEnd = word.indexOf("://");
  if (schemeEnd < 0 || !SCHEME_END.test(word.slice(Math.max(0, schemeEnd - 42), schemeEnd))) return undefined;
  const userAt = schemeEnd + "://".length;
  const from = word.indexOf(":", userAt) + 1;
  if (from === 0 || /[/@]/.test(word.slice(userAt, from - 1))) return undefined;
  const { rest } = authorityOf(word);
  const inAuthority = word.lastIndexOf("@", word.length - rest.length - 1);
  // A raw / or # in a password ends the authority too early: then it reaches to the last @ of all.
  const to = inAuthority >= from ? inAuthority : word.lastIndexOf("@");
  return to > from ? { text: word.slice(from, to), from, to } : undefined;
}

/** A URL taken apart at its hosts: each may have a login of its own. */
function authorityOf(url: string): {
  readonly start: string;
  readonly hosts: readonly string[];
  readonly rest: string;
} {
  const at = url.indexOf("://");
  const from = at < 0 ? url.length : at + "://".length;
  const to = endOfAuthority(url, from);
  const authority = url.slice(from, to);
  const hosts = url.slice(0, at).toLowerCase() === "redlock" ? membersOf(authority) : hostsOf(authority);
  return { start: url.slice(0, from), hosts, rest: url.slice(to) };
}

/** Where what stands before the first / ? or # can be no hosts, that character is one of a password, which the last @ ends. */
function endOfAuthority(url: string, from: number): number {
  const to = endFrom(url, from);
  const authority = url.slice(from, to);
  const last = url.lastIndexOf("@");
  if (last < to || authority.includes("@") || authority.split(",").every((host) => HOST.test(host))) return to;
  return endFrom(url, last);
}

function endFrom(url: string, from: number): number {
  const length = url.slice(from).search(/[/?#]/);
  return length < 0 ? url.length : from + length;
}

/** One login for all: it reaches to the last @, and may hold commas. */
function hostsOf(authority: string): readonly string[] {
  const hostAt = authority.lastIndexOf("@") + 1;
  const [first = "", ...others] = authority.slice(hostAt).split(",");
  return [authority.slice(0, hostAt) + first, ...others];
}

/** A login for each: what is neither a host nor ends in one is the beginning of a login with a comma in it. */
function membersOf(authority: string): readonly string[] {
  const members: string[] = [];
  let begun: string[] = [];
  for (const part of authority.split(",")) {
    begun.push(part);
    if (!part.includes("@") && (begun.length > 1 || !HOST.test(part))) continue;
    members.push(begun.join(","));
    begun = [];
  }
  return begun.length === 0 ? members : [...members, begun.join(",")];
}

function passwordOf(host: string): string {
  const login = host.slice(0, Math.max(0, host.lastIndexOf("@")));
  return login.includes(":") ? login.slice(login.indexOf(":") + 1) : "";
}

// A shorter secret stands in too many innocent words; the patterns above still mask it inside a URL.
const SHORTEST = 4;

function addForms(found: Set<string>, secret: string): void {
  for (const form of [secret, decoded(secret), encodeURIComponent(toWellFormed(decoded(secret)))]) {
    if (form.length >= SHORTEST) found.add(form);
    const inJson = JSON.stringify(form).slice(1, -1);
    if (inJson.length >= SHORTEST) found.add(inJson);
  }
}

/** encodeURIComponent() throws at half a character. */
function toWellFormed(text: string): string {
  return text.replaceAll(/\p{Surrogate}/gu, "\ufffd");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
