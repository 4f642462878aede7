/** Makes the tables and functions, or finds out that they are there. */
import { LockBackendError } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { codeOf } from "./errors.ts";
import { CALL_STORE_FACTS } from "./generated/sql.ts";
import { MIGRATE, VERSION } from "./migrate.ts";
import { toFields } from "./records.ts";

const MISSING: readonly (string | undefined)[] = ["3F000", "42P01", "42883"];

export interface StoreFacts {
  readonly version: number;
  /** The timeline on which the tables were last written, as eight hex digits. */
  readonly timeline: string;
  /** When a change of it was noticed, µs since 1970; 0: never, or an operator has ended the quarantine. */
  readonly changedUs: number;
  /** The longest quarantine that was asked for. */
  readonly quarantineMs: number;
}

/** `undefined`: there are none. */
export async function storeFacts(connection: Connection): Promise<StoreFacts | undefined> {
  try {
    const { answers } = await connection.read(CALL_STORE_FACTS, [null]);
    const { version, timeline, changed, quarantine } = toFields(answers[0] ?? "") ?? {};
    if (typeof version !== "number") return undefined;
    return { version, timeline: String(timeline), changedUs: Number(changed), quarantineMs: Number(quarantine) };
  } catch (error) {
    if (MISSING.includes(codeOf(error))) return undefined;
    throw error;
  }
}

/** Runs the migration, unless these tables and functions are there already: to replace them would make every process plan anew. */
export async function setUp(connection: Connection): Promise<void> {
  const facts = await storeFacts(connection);
  if (facts === undefined || facts.version < VERSION) await connection.script(MIGRATE);
}

/** Rejects with what to do if the tables are missing, or too old for this version. */
export async function checkStore(connection: Connection): Promise<void> {
  const facts = await storeFacts(connection);
  if (facts !== undefined && facts.version >= VERSION) return;
  const what =
    facts === undefined
      ? "its tables are missing in this database"
      : `its tables are of version ${facts.version}, and this version of Holdfast needs ${VERSION}`;
  const text = `Postgres locks: ${what}. Run \`holdfast migrate --url …\`, or say \`migrate: true\` (in a URL: ?migrate=true).`;
  throw new LockBackendError("postgres", "", text, { fatal: true });
}
