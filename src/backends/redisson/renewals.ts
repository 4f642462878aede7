/** Renews leases, many in one call, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "../redis/connection.ts";
import { GONE, whyGone } from "../redis/layouts/forced.ts";
import { whoText } from "../redis/layouts/notes.ts";
import { inPortions } from "../redis/layouts/portions.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { renew as renewScript } from "./generated/scripts.ts";
import type { Names, Place } from "./keys.ts";
import type { Settings } from "./options.ts";

const ANSWERS: ReadonlyMap<unknown, Renewal> = new Map([
  [0, GONE],
  [1, { held: true }],
  [2, { held: false, reason: { kind: "retaken" } }],
  [3, { held: false, reason: { kind: "overwritten" } }],
]);

interface Ask {
  readonly at: number;
  readonly claim: Claim;
  readonly place: Place;
  readonly fence: string;
}

export async function renew(
  connection: Connection,
  names: Names,
  settings: Settings,
  claims: readonly Claim[],
  fences?: readonly bigint[],
): Promise<readonly Renewal[]> {
  const answers: Renewal[] = [];
  const asks = claims.flatMap((claim, at): Ask[] => {
    const place = names.at(claim);
    const trouble = whyTooLong(claim, place, settings);
    if (trouble === undefined) return [{ at, claim, place, fence: fences === undefined ? "" : String(fences[at]) }];
    answers[at] = { held: "unknown", cause: errors.refusal(claim.name, trouble) };
    return [];
  });
  const calls = inPortions(connection, asks, ({ place }) => place.lock);
  await Promise.all(calls.map((call) => renewTogether(connection, settings, call, answers)));
  return answers;
}

/** Redisson's watchdog gives the key of a read-write lock its own time, also if that is less than ours. */
export function whyTooLong(
  { ttlMs, lockDelayMs }: Claim,
  { step }: Place,
  { watchdogMs }: Settings,
): string | undefined {
  if (step !== "read" || ttlMs + lockDelayMs <= watchdogMs) return undefined;
  return `a reader's ttl and lockDelay are at most ${watchdogMs} ms together, as Redisson's watchdog shortens the lock to its own lockWatchdogTimeout (\`watchdog\`)`;
}

async function renewTogether(
  connection: Connection,
  settings: Settings,
  asks: readonly Ask[],
  answers: Renewal[],
): Promise<void> {
  const keys = asks.flatMap(({ place: { lock, notes, deadline } }) => [lock, notes, deadline ?? lock]);
  const args = asks.flatMap(({ claim, place, fence }) => [
    place.field,
    place.step,
    fence,
    String(claim.ttlMs + claim.lockDelayMs),
    claim.changed === true ? whoText(claim) : "",
  ]);
  const asked = runScript(connection, renewScript, keys, [String(settings.idleMs), ...args]);
  const replies: unknown = await asked.catch((error: unknown) =>
    errors.toBackendError(error, asks.length === 1 ? (asks[0] as Ask).claim.name : ""),
  );
  const read = asks.map(async ({ at, claim, place }, index) => {
    const answer = toRenewal(claim.name, replies, index);
    answers[at] = answer === GONE ? await whyGone(connection, place.notes, place.field) : answer;
  });
  await Promise.all(read);
}

function toRenewal(name: string, replies: unknown, index: number): Renewal {
  if (Array.isArray(replies)) return ANSWERS.get(replies[index]) ?? { held: "unknown", cause: errors.unexpected(name) };
  return { held: "unknown", cause: replies instanceof Error ? replies : errors.unexpected(name) };
}
