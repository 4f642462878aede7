/**
 * Verrou knows a lock by its owner, a text that may travel to another process. Holdfast knows a lease by its claim's id. What is shown with the
 * lease leads from one to the other, for those who know the owner and for no one else: a proof of the owner, and the id hidden with it.
 */
import { createHash } from "node:crypto";
import type { Meta } from "../../contract/backend.ts";

const PROOF = "verrouOwner";
const HIDDEN = "verrouClaim";
/** Of a claim's id. */
export const CLAIM_BYTES = 16;

/** What is shown with the lease of this owner. */
export function toMeta(key: string, owner: string, claimId: string): Meta {
  const digest = digestOf(key, owner);
  return {
    [PROOF]: proofIn(digest),
    [HIDDEN]: hidden(Buffer.from(claimId, "base64url"), digest).toString("base64url"),
  };
}

/** The id of the claim. `undefined`: the lease is not this owner's. */
export function claimIdOf(meta: Meta, key: string, owner: string): string | undefined {
  const digest = digestOf(key, owner);
  if (meta[PROOF] !== proofIn(digest)) return undefined;
  return hidden(Buffer.from(meta[HIDDEN] ?? "", "base64url"), digest).toString("base64url");
}

function digestOf(key: string, owner: string): Buffer {
  return createHash("sha256")
    .update(JSON.stringify([key, owner]))
    .digest();
}

function proofIn(digest: Buffer): string {
  return digest.subarray(0, CLAIM_BYTES).toString("base64url");
}

/** Hides, and shows what is hidden. */
function hidden(bytes: Buffer, digest: Buffer): Buffer {
  return Buffer.from(bytes.map((byte, at) => byte ^ (digest[CLAIM_BYTES + at] ?? 0)));
}
