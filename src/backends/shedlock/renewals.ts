/** Renews leases, many in one statement, each with its own answer. Used by the backend, and by the renewer of a worker thread. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Connection } from "../postgres/connection.ts";
import { toBackendError, unexpected } from "./errors.ts";
import { toForce, toRow } from "./rows.ts";
import type { Statements } from "./statements.ts";

const PORTION = 1000;
const RENEWED: Renewal = { held: true };
const GONE: Renewal = { held: false, reason: { kind: "gone" } };
const RETAKEN: Renewal = { held: false, reason: { kind: "retaken" } };

export async function renew(
  connection: Connection,
  { renew: statement, why }: Statements,
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
      const { answers } = await connection.ask(statement, [JSON.stringify(asked)]);
      const letters = answers[0] ?? "";
      if (letters.length !== portion.length) throw unexpected("");
      const gone = portion.filter((_claim, n) => letters[n] === "n");
      const forced = gone.length === 0 ? {} : await whoEnded(connection, why, gone);
      return portion.map(({ id }, n) => toRenewal(letters[n], toForce(forced[id])));
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

function toRenewal(letter: string | undefined, force: ReturnType<typeof toForce>): Renewal {
  if (letter === "y") return RENEWED;
  if (letter === "o") return RETAKEN;
  return force === undefined ? GONE : { held: false, reason: { kind: "forced", ...force } };
}
