/**
 * The name under which the outcome of a request is kept, and what makes it the same request. Both are digests: keys and scopes may be secret, and
 * names of locks are shown to people. Each part has its length before it, so that no two lists of parts are the same text.
 */
import { createHash } from "node:crypto";

export function outcomeName(scope: string, key: string): string {
  return `idempotency:${digestOfParts(scope, key)}`;
}

/** `type`: the media type of the body, because the same bytes are another request as another type. `bodyDigest`: of the raw body. */
export function fingerprint(method: string, path: string, type: string, bodyDigest: string): string {
  return digestOfParts(method, path, type, bodyDigest);
}

export function digestOf(body: Uint8Array | string): string {
  return createHash("sha256").update(body).digest("base64url");
}

export function digestOfParts(...parts: readonly string[]): string {
  const hash = createHash("sha256");
  for (const part of parts) {
    // UTF-16, because half of a surrogate pair is not lost there.
    const bytes = Buffer.from(part, "utf16le");
    hash.update(`${bytes.length}:`).update(bytes);
  }
  return hash.digest("base64url");
}
