/** Renews leases, many in one statement, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "../postgres/connection.ts";
import { toBackendError, unexpected } from "./errors.ts";
import { toForce, toRow } from "./rows.ts";
import type { Statements } from "./statements.ts";

const PORTION = 1000;
/** As in the Postgres backend: the answers of the others wait with a row that another transaction has locked. */
const BUSY_MAX_MS = 3000;
const BUSY_PART = 1 / 10;
const RENEWED: Renewal = { held: true };
const GONE: Renewal = { held: false, reason: { kind: "gone" } };
const RETAKEN: Renewal = { held: false, reason: { kind: "retaken" } };

export async function renew(
  connection: Connection,
  { renew: passing, renewWaiting: waiting, why }: Statements,
  claims: readonly Claim[],
  fences?: readonly bigint[],
): Promise<readonly Renewal[]> {
  const portions = Array.from({ length: Math.ceil(claims.length / PORTION) }, async (_, at) => {
    const from = at * PORTION;
    const portion = claims.slice(from, from + PORTION);
    const asked = portion.map((claim, n) => ({
      n,
      name: claim.name,
      id: claim.id,
      fence: fences === undefined ? null : String(fences[from + n]),
      ms: claim.ttlMs + claim.lockDelayMs,
    }));
    try {
      const letters = await lettersOf(connection, passing, asked);
      // Their rows were locked in that instant. They are waited for in a statement of their own, for a short time: the core asks again.
      const busy = asked.filter(({ n }) => letters[n] === "b");
      if (busy.length > 0) {
        const waitMs = Math.min(BUSY_MAX_MS, ...portion.map(({ ttlMs }) => ttlMs * BUSY_PART));
        const again = await lettersOf(connection, waiting, busy, waitMs).catch(() => []);
        for (const [at, { n }] of busy.entries()) letters[n] = again[at] ?? "b";
      }
      const gone = portion.filter((_claim, n) => letters[n] === "n");
      const forced = gone.length === 0 ? {} : await whoEnded(connection, why, gone);
      return portion.map(({ id, name }, n) => toRenewal(letters[n], toForce(forced[id]), name));
    } catch (error) {
      const cause = toBackendError(error, portion.length === 1 ? (portion[0] as Claim).name : "", true);
      return portion.map((): Renewal => ({ held: "unknown", cause }));
    }
  });
  return (await Promise.all(portions)).flat();
}

/** Not to know it does not make them less gone. */
async function whoEnded(
  connection: Connection,
  statement: string,
  claims: readonly Claim[],
): Promise<Readonly<Record<string, unknown>>> {
  const asked = claims.map(({ name, id }) => ({ name, id }));
  const reply = await connection.ask(statement, [JSON.stringify(asked)]).catch(() => undefined);
  return { ...toRow(reply?.answers[0]) };
}

interface Asked {
  readonly n: number;
}

async function lettersOf(
  connection: Connection,
  statement: string,
  asked: readonly Asked[],
  waitMs?: number,
): Promise<string[]> {
  const limit = waitMs === undefined ? [] : [String(Math.max(1, Math.floor(waitMs)))];
  const { answers } = await connection.ask(statement, [JSON.stringify(asked), ...limit]);
  const letters = (answers[0] ?? "").split("");
  if (letters.length !== asked.length) throw unexpected("");
  return letters;
}

function toRenewal(letter: string | undefined, force: ReturnType<typeof toForce>, name: string): Renewal {
  if (letter === "b") return { held: "unknown", cause: unexpected(name) };
  if (letter === "y") return RENEWED;
  if (letter === "o") return RETAKEN;
  return force === undefined ? GONE : { held: false, reason: { kind: "forced", ...force } };
}
