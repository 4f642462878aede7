/** Hides passwords in whatever the CLI prints: messages, errors of client libraries, JSON. */

const HIDDEN = "***";
const SECRET_PARAM = /pass|secret|token|auth|credential|api-?key/i;
/** `scheme://user:password@` anywhere in a text, also where the URL itself is broken. */
const CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/[^\s/:@]*:)([^\s/]+)(?=@)/gi;
const QUERY_PARAM = /([?&;])([^=&;\s#]+)=([^&;\s#"']*)/g;

/** The secrets in a URL, raw and decoded, longest first: what must never be printed. */
export function secretsOf(url: string): readonly string[] {
  const found = new Set<string>();
  for (const match of url.matchAll(CREDENTIALS)) addForms(found, match[2] ?? "");
  for (const match of url.matchAll(QUERY_PARAM)) {
    if (SECRET_PARAM.test(match[2] ?? "")) addForms(found, match[3] ?? "");
  }
  return [...found].toSorted((a, b) => b.length - a.length);
}

/** Masks the passwords of every URL in `text`, and each of the `known` secrets wherever it stands. */
export function maskSecrets(text: string, known: Iterable<string> = []): string {
  let masked = text
    .replace(CREDENTIALS, `$1${HIDDEN}`)
    .replace(QUERY_PARAM, (whole, mark: string, name: string) =>
      SECRET_PARAM.test(name) ? `${mark}${name}=${HIDDEN}` : whole,
    );
  for (const secret of known) masked = masked.replaceAll(secret, HIDDEN);
  return masked;
}

// A shorter secret stands in too many innocent words; the patterns above still mask it inside a URL.
const SHORTEST = 4;

function addForms(found: Set<string>, secret: string): void {
  for (const form of [secret, decoded(secret), encodeURIComponent(decoded(secret))]) {
    if (form.length >= SHORTEST) found.add(form);
    const inJson = JSON.stringify(form).slice(1, -1);
    if (inJson.length >= SHORTEST) found.add(inJson);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
