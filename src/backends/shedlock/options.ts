/** Options of shedlock(), checked once. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";

export interface ShedLockOptions {
  /** The table, with its schema if that is not on the search path. @default "shedlock" */
  readonly table?: string | undefined;
  /** Create the table at the first use, if there is none. The role must be allowed to. @default false */
  readonly migrate?: boolean | undefined;
  /** How long a statement may take, and how long it may wait for a connection before that. @default "10s" */
  readonly answer?: Duration | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = { table: "shedlock", migrate: false, answer: "10s" } as const satisfies ShedLockOptions;
/** Names as people write them: others would need quotes in Java too. */
const TABLE = /^(?:[A-Za-z_]\w{0,62}\.)?[A-Za-z_]\w{0,62}$/u;

export interface Settings {
  readonly table: string;
  readonly migrate: boolean;
  readonly answerMs: number;
  readonly clock: Clock;
}

export function toSettings(options: ShedLockOptions): Settings {
  const table = options.table ?? DEFAULTS.table;
  if (typeof table !== "string" || !TABLE.test(table)) {
    throw new ArgumentError(`Expected \`table\` to be a name such as "shedlock" or "jobs.shedlock", got ${got(table)}`);
  }
  const migrate = options.migrate ?? DEFAULTS.migrate;
  if (typeof migrate !== "boolean") {
    throw new ArgumentError(`Expected \`migrate\` to be true or false, got ${got(migrate)}`);
  }
  return {
    table,
    migrate,
    answerMs: toMs(options.answer ?? DEFAULTS.answer, "answer", { minMs: 100, maxMs: MAX_TTL_MS }),
    clock: options.clock ?? systemClock,
  };
}
