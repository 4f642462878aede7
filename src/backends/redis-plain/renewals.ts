/** Renews leases, many in one call, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "../redis/connection.ts";
import { slotOf } from "../redis/keys.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { renew as renewScript, why } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { toForce, whoText } from "../redis/layouts/notes.ts";

/** A call for so many takes about a millisecond of the server's time. */
const PORTION = 250;
const RENEWED: Renewal = { held: true };
const GONE: Renewal = { held: false, reason: { kind: "gone" } };
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
  const calls = new Map<number, Ask[]>();
  for (const [at, claim] of claims.entries()) {
    const key = names.of(claim.name).lock;
    const ask = { at, claim, key, fence: fences === undefined ? "" : String(fences[at]) };
    // In a cluster a call takes the keys of one slot, whichever they are; elsewhere as many as go in one portion.
    const call = connection.topology === "cluster" ? slotOf(names.full(key)) : Math.floor(at / PORTION);
    const same = calls.get(call);
    if (same === undefined) calls.set(call, [ask]);
    else same.push(ask);
  }
  await Promise.all([...calls.values()].map((asks) => renewTogether(connection, names, asks, answers)));
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
    answers[at] = answer === GONE ? await whyGone(connection, names, claim) : answer;
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

/** Not to know it does not make it less gone. */
async function whyGone(connection: Connection, names: Names, { name, id }: Claim): Promise<Renewal> {
  const reply = await runScript(connection, why, [names.of(name).notes], [id]).catch(() => "");
  const force = typeof reply === "string" ? toForce(reply) : undefined;
  return force === undefined ? GONE : { held: false, reason: { kind: "forced", ...force } };
}
