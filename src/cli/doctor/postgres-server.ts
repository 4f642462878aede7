/** What a Postgres server says of itself, and what that means for leases in it, whatever their layout. */
import type { Connection } from "../../backends/postgres/connection.ts";
import { toFields } from "../../backends/postgres/records.ts";
import type { Finding } from "./report.ts";

export interface Server {
  readonly version: string;
  readonly recovering: boolean;
  readonly isolation: string;
  readonly synchronous: string;
  readonly fsync: string;
  readonly standbys: string;
  readonly replicas: number;
  readonly timeline: string | null;
  readonly role: string;
  readonly nowMs: number;
}

const LOOK = `select pg_catalog.json_build_object(
  'version', pg_catalog.current_setting('server_version'),
  'recovering', pg_catalog.pg_is_in_recovery(),
  'isolation', pg_catalog.current_setting('default_transaction_isolation'),
  'synchronous', pg_catalog.current_setting('synchronous_commit'),
  'fsync', pg_catalog.current_setting('fsync'),
  'standbys', pg_catalog.current_setting('synchronous_standby_names'),
  'replicas', (select pg_catalog.count(*) from pg_catalog.pg_stat_replication),
  'timeline', case when not pg_catalog.pg_is_in_recovery()
    then pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) end,
  'role', current_user,
  'nowMs', (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::bigint)::text as answer`;

/** `offsetMs`: how far its clock is ahead of ours. */
export async function readServer(
  connection: Connection,
): Promise<{ readonly server: Server; readonly offsetMs: number }> {
  const sentMs = Date.now();
  const { answers } = await connection.ask(LOOK, []);
  const server = toFields(answers[0] ?? "") as unknown as Server;
  return { server, offsetMs: server.nowMs - (sentMs + Date.now()) / 2 };
}

export function durability({ recovering, synchronous, fsync }: Server): readonly Finding[] {
  const findings: Finding[] = [];
  if (recovering) {
    findings.push({
      level: "broken",
      check: "primary",
      text: "this is a standby, which grants nothing. Use the primary",
    });
  }
  findings.push(
    synchronous === "off"
      ? { level: "good", check: "commits", text: "synchronous_commit is off, and our steps turn it on for themselves" }
      : { level: "good", check: "commits", text: `synchronous_commit is ${synchronous}: a crash loses no lease` },
  );
  if (fsync === "off") {
    const text = "fsync is off: a power cut can lose leases, and the whole database";
    findings.push({ level: "weak", check: "fsync", text });
  }
  return findings;
}
