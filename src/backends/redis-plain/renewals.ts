/** Renews leases, many in one call, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "../redis/connection.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { renew as renewScript } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { GONE, whyGone } from "../redis/layouts/forced.ts";
import { whoText } from "../redis/layouts/notes.ts";
import { inPortions } from "../redis/layouts/portions.ts";

const RENEWED: Renewal = { held: true };
const RETAKEN: Renewal = { held: false, reason: { kind: "retaken" } };
const OVERWRITTEN: Renewal = { held: false, reason: { kind: "overwritten" } };

interface Ask {
  readonly at: number;
  readonly claim: Claim;
  readonly key: string;
  readonly fence: string;
}

export async function renew(
  connection: Connection,
  names: Names,
  claims: readonly Claim[],
  fences?: readonly bigint[],
): Promise<readonly Renewal[]> {
  const answers: Renewal[] = [];
  const asks = claims.map((claim, at): Ask => {
    const fence = fences === undefined ? "" : String(fences[at]);
    return { at, claim, key: names.of(claim.name).lock, fence };
  });
  const calls = inPortions(connection, asks, ({ key }) => names.full(key));
  await Promise.all(calls.map((call) => renewTogether(connection, names, call, answers)));
  return answers;
}

async function renewTogether(
  connection: Connection,
  names: Names,
  asks: readonly Ask[],
  answers: Renewal[],
): Promise<void> {
  const args = asks.flatMap(({ claim, fence }) => [
    claim.id,
    fence,
    String(claim.ttlMs + claim.lockDelayMs),
    claim.changed === true ? whoText(claim) : "",
  ]);
  const keys = asks.map(({ key }) => key);
  const replies: unknown = await runScript(connection, renewScript, keys, args).catch((error: unknown) =>
    errors.toBackendError(error, asks.length === 1 ? (asks[0] as Ask).claim.name : ""),
  );
  const read = asks.map(async ({ at, claim }, index) => {
    const answer = toRenewal(claim.name, replies, index);
    answers[at] = answer === GONE ? await whyGone(connection, names.of(claim.name).notes, claim.id) : answer;
  });
  await Promise.all(read);
}

function toRenewal(name: string, replies: unknown, index: number): Renewal {
  if (!Array.isArray(replies))
    return { held: "unknown", cause: replies instanceof Error ? replies : errors.unexpected(name) };
  const reply: unknown = replies[index];
  if (reply === 1) return RENEWED;
  if (reply === 2) return RETAKEN;
  if (reply === 0) return GONE;
  if (typeof reply !== "string") return { held: "unknown", cause: errors.unexpected(name) };
  return reply.includes("WRONGTYPE")
    ? OVERWRITTEN
    : { held: "unknown", cause: errors.toBackendError(new Error(reply), name) };
}
