/** A Postgres: whether the tables are there, what a crash or a promotion could lose, and what is between us and the server. */
import { randomBytes } from "node:crypto";
import { type OpenConnection, openConnection } from "../../backends/postgres/open.ts";
import { codeOf, toBackendError } from "../../backends/postgres/errors.ts";
import { CALL_END_QUARANTINE } from "../../backends/postgres/generated/sql.ts";
import { VERSION } from "../../backends/postgres/migrate.ts";
import { type StoreFacts, storeFacts } from "../../backends/postgres/setup.ts";
import { formatMs } from "../../contract/duration.ts";
import { durability, readServer, type Server } from "./postgres-server.ts";
import type { Examine, Finding, Report } from "./report.ts";

export const examinePostgres: Examine = async ({ url, init, say }) => {
  const opened = await openConnection(url);
  try {
    return await examine(opened, init, say);
  } catch (error) {
    throw toBackendError(error, "", false);
  } finally {
    await opened.connection.close();
  }
};

async function examine(
  { connection, settings }: OpenConnection,
  init: boolean,
  say: (line: string) => void,
): Promise<Report> {
  const { server, offsetMs } = await readServer(connection);
  const listening = await connection.listen(`holdfast_${randomBytes(16).toString("hex")}`, {
    heard: () => undefined,
    ended: () => undefined,
  });
  await listening?.stop();
  const isPooled = listening === undefined;
  const facts = await storeFacts(connection).catch((error: unknown) => {
    if (codeOf(error) === "42501") return "denied" as const;
    throw error;
  });
  const ended: Finding[] = [];
  if (init && typeof facts === "object") {
    await connection.ask(CALL_END_QUARANTINE, [null]);
    say("The quarantine is over: you say that no lease which this server may have lost is still alive.");
    ended.push({ level: "good", check: "init", text: "the quarantine was ended" });
  }
  return {
    backend: "postgres",
    facts: {
      server: server.version,
      role: server.role,
      tables: typeof facts === "object" ? `version ${facts.version}` : (facts ?? "missing"),
      timeline: server.timeline ?? "a standby has none of its own",
      replicas: server.replicas,
      synchronous_commit: server.synchronous,
      pooler: isPooled ? "yes" : "no",
      "clock offset": `${Math.round(offsetMs)} ms`,
    },
    findings: [
      tables(facts),
      ...settingsOf(server),
      replication(server, settings.quarantineMs > 0),
      ...quarantine(facts, server, init),
      pooler(isPooled),
      ...ended,
    ],
    promises: [
      "one holder at a time, by the clock of the server",
      "fences that rise, also after a crash, a promotion and a clean-up",
      "first come, first served, through poolers too",
    ],
    limits: [
      "mutual exclusion when the clock of the server is set forward: guard what you protect with the fence",
      "mutual exclusion against an old primary that still runs after a promotion, unless replication is synchronous",
    ],
  };
}

function tables(facts: StoreFacts | "denied" | undefined): Finding {
  const check = "tables";
  if (facts === "denied") {
    return { level: "broken", check, text: "this role may not use the tables. SECURITY.md has the grants" };
  }
  if (facts === undefined) {
    return { level: "broken", check, text: "the tables are missing. Make them with `holdfast migrate`" };
  }
  if (facts.version < VERSION) {
    const text = `the tables are of version ${facts.version}, and this version needs ${VERSION}. Run \`holdfast migrate\``;
    return { level: "broken", check, text };
  }
  return { level: "good", check, text: "tables and functions are there" };
}

function settingsOf(server: Server): readonly Finding[] {
  const findings: Finding[] = [];
  if (!/^read (?:un)?committed$/u.test(server.isolation)) {
    const text = `default_transaction_isolation is "${server.isolation}": every step is refused. Set it to "read committed" for this role`;
    findings.push({ level: "broken", check: "isolation", text });
  }
  return [...findings, ...durability(server)];
}

function replication({ standbys, replicas, synchronous }: Server, quarantined: boolean): Finding {
  const check = "fail-over";
  if (standbys !== "" && !["local", "off"].includes(synchronous)) {
    return { level: "good", check, text: "replication is synchronous: a promoted standby has every lease" };
  }
  if (quarantined) {
    const text =
      "after a promotion nothing is granted until leases that may have been missed are over. Fence the old primary off";
    return { level: "good", check, text };
  }
  if (replicas === 0) return { level: "good", check, text: "no standby is connected" };
  const text = "a promoted standby may lack the last leases: use synchronous replication, or failover=quarantine";
  return { level: "weak", check, text };
}

function quarantine(
  facts: StoreFacts | "denied" | undefined,
  { timeline, nowMs }: Server,
  init: boolean,
): readonly Finding[] {
  if (typeof facts !== "object" || facts.quarantineMs === 0 || init) return [];
  const leftMs = facts.changedUs / 1000 + facts.quarantineMs - nowMs;
  if (timeline !== null && facts.timeline !== timeline) {
    const text = "the server was promoted: the next attempt begins a quarantine";
    return [{ level: "weak", check: "quarantine", text }];
  }
  if (leftMs <= 0) return [];
  const text = `nothing is granted for ${formatMs(leftMs)}: the server was promoted. \`--init\` ends it, if no lease was lost`;
  return [{ level: "weak", check: "quarantine", text }];
}

function pooler(isPooled: boolean): Finding {
  const check = "pooler";
  return isPooled
    ? {
        level: "weak",
        check,
        text: "a pooler is in between: locks work, but waiters ask repeatedly instead of being woken",
      }
    : { level: "good", check, text: "a direct connection: waiters are woken by NOTIFY" };
}
