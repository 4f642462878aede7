/** Who is in the way, as it goes into a log: holders and their metas are written by others. */
import type { Holding, Meta } from "../../contract/backend.ts";
import type { DeadlockMember } from "../../contract/deadlock.ts";
import { HOLDER_MAX } from "../../contract/foreign.ts";
import { isSecretName } from "../../contract/mask-secrets.ts";
import { clean } from "../clean.ts";
import type { Fields } from "./logger.ts";

const HIDDEN = "***";
/** Names of secrets that are none in a URL: keys of all kinds, and what a browser sends to log in. */
const SECRET_FIELD = /keys?(?![a-z])|pwd|cookie|jwt|bearer/;
const META_FIELDS_MAX = 20;
/** Of a lock with a limit, the first few say enough. */
const HOLDERS_MAX = 5;
const MEMBERS_MAX = 16;

/** By its words: `privateKeyPem` is as much a key as `private_key_pem`, and a `keyspace` is none. */
function isSecretField(name: string): boolean {
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, "$1_$2").toLowerCase();
  return isSecretName(name) || SECRET_FIELD.test(words);
}

function cleanMeta(meta: Meta): Readonly<Record<string, string>> {
  const fields = Object.entries(meta).slice(0, META_FIELDS_MAX);
  return Object.fromEntries(
    fields.map(([name, text]) => [
      clean(name, HOLDER_MAX),
      isSecretField(name) ? HIDDEN : clean(String(text), HOLDER_MAX),
    ]),
  );
}

/** Who is in the way. */
export function cleanHolders(heldBy: readonly Holding[] | undefined): readonly Fields[] {
  return (heldBy ?? []).slice(0, HOLDERS_MAX).map(({ holder, fence, heldMs, meta }) => ({
    holder: clean(holder, HOLDER_MAX),
    fence: String(fence),
    heldMs: Math.round(heldMs),
    meta: cleanMeta(meta ?? {}),
  }));
}

/** Those who wait for each other. */
export function cleanMembers(members: readonly DeadlockMember[]): readonly Fields[] {
  return members.slice(0, MEMBERS_MAX).map(({ holder, waitsFor, holds, meta }) => ({
    holder: clean(holder, HOLDER_MAX),
    waitsFor: clean(waitsFor),
    holds: holds.slice(0, HOLDERS_MAX).map(({ name, fence }) => ({ lock: clean(name), fence: String(fence) })),
    meta: cleanMeta(meta),
  }));
}
