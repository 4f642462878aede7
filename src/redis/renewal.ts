/** Renews leases in portions, each with its own answer. Used by the backend, and by a worker thread's renewer. */
import type { Claim, Renewal } from "../backend.ts";
import type { Clock, Timer } from "../clock.ts";
import { portions } from "./batch.ts";
import type { Connection } from "./connection.ts";
import { toBackendError } from "./fault.ts";
import { renew } from "./generated/renew.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./options.ts";
import { forcedReason } from "./record.ts";
import { runReplicated, runScript } from "./script.ts";

interface Item {
  readonly key: string;
  readonly claim: Claim;
  readonly index: number;
}

export async function renewAll(
  connection: Connection,
  names: Names,
  settings: Settings,
  claims: readonly Claim[],
): Promise<readonly Renewal[]> {
  const answers = Array.from<Renewal>({ length: claims.length });
  const items = claims.map((claim, index) => ({ key: names.lock(claim.name), claim, index }));
  const all = portions(items, connection.topology, names);
  const renewPortion = async (portion: readonly Item[]): Promise<void> => {
    const asked = ask(connection, settings, portion).catch((error: unknown) => toBackendError(error, ""));
    // A node that does not answer must not keep the others' answers from their leases.
    const replies = await (all.length > 1 ? within(settings.clock, asked, patienceMs(portion)) : asked);
    for (const [place, { index }] of portion.entries()) {
      answers[index] = replies instanceof Error ? { held: "unknown", cause: replies } : toRenewal(replies[place]);
    }
  };
  await Promise.all(all.map(renewPortion));
  return answers;
}

function patienceMs(portion: readonly Item[]): number {
  return Math.max(50, Math.min(...portion.map(({ claim }) => claim.ttlMs)) / 6);
}

async function within(
  clock: Clock,
  asked: Promise<readonly unknown[] | Error>,
  ms: number,
): Promise<readonly unknown[] | Error> {
  let timer: Timer;
  const late = new Promise<Error>((resolve) => {
    timer = clock.setTimer(
      () => resolve(toBackendError(new Error(`no answer within ${Math.round(ms)} ms`), "")),
      ms,
      true,
    );
  });
  const first = await Promise.race([asked, late]);
  clock.clearTimer(timer);
  return first;
}

async function ask(connection: Connection, settings: Settings, portion: readonly Item[]): Promise<readonly unknown[]> {
  const keys: string[] = [];
  const args: string[] = [];
  const idle = String(settings.idleMs);
  // Most of what thousands of held leases cost is done here: no array per claim, and no text of a number twice in a row.
  let [keepMs, keep] = [-1, ""];
  for (const { key, claim } of portion) {
    const ms = claim.ttlMs + claim.lockDelayMs;
    if (ms !== keepMs) [keepMs, keep] = [ms, String(ms)];
    keys.push(key);
    args.push(claim.id, keep, idle);
  }
  const { durability } = settings;
  if (durability === undefined) return asArray(await runScript(connection, renew, keys, args));
  const { reply, replicas } = await runReplicated(
    connection,
    renew,
    keys,
    args,
    durability.replicas,
    durability.waitMs,
  );
  if (replicas < durability.replicas) {
    // The lease lives on here, but a fail-over might not know of it: so it does not count.
    throw new Error(
      `${replicas} of ${durability.replicas} replicas confirmed the renewal within ${durability.waitMs} ms`,
    );
  }
  return asArray(reply);
}

function toRenewal(reply: unknown): Renewal {
  if (reply === 1) return { held: true };
  if (reply === "gone")
    return { held: false, reason: "the store no longer knows it: its time was over, or the store lost its data" };
  if (typeof reply !== "string")
    return { held: "unknown", cause: new Error("Redis answered a renewal with something else") };
  if (!reply.startsWith("!")) return { held: false, reason: forcedReason(reply) };
  if (/WRONGTYPE|HOLDFAST_FOREIGN/u.test(reply))
    return { held: false, reason: "somebody wrote something else over it" };
  return { held: "unknown", cause: toBackendError(new Error(reply.slice(1)), "") };
}

function asArray(reply: unknown): readonly unknown[] {
  if (!Array.isArray(reply)) throw new Error("Redis answered a batch with something else");
  return reply;
}
