/** ShedLock's table: whether all who use it read the same times from it, and what a crash or a promotion could lose. */
import { toBackendError } from "../../backends/shedlock/errors.ts";
import { open } from "../../backends/shedlock/open.ts";
import { readTable } from "../../backends/shedlock/table.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { durability, readServer, type Server } from "./postgres-server.ts";
import type { Examine, Finding } from "./report.ts";

export const examineShedLock: Examine = async ({ url }) => {
  const { connection, settings } = await open(url);
  try {
    const { server, offsetMs } = await readServer(connection);
    const table = await readTable(connection, settings.table).catch((error: unknown) => {
      if (error instanceof LockBackendError && error.fatal) return error.message;
      throw error;
    });
    return {
      backend: "shedlock",
      facts: {
        server: server.version,
        role: server.role,
        table: settings.table,
        replicas: server.replicas,
        synchronous_commit: server.synchronous,
        "clock offset": `${Math.round(offsetMs)} ms`,
      },
      findings: [
        typeof table === "string"
          ? { level: "broken", check: "table", text: table.replace(/\.$/u, "") }
          : {
              level: "good",
              check: "table",
              text: "the table is as ShedLock makes it, with times that all read alike",
            },
        ...durability(server),
        failOver(server),
        {
          level: "unknown",
          check: "java",
          text: "whether ShedLock itself uses the clock of the server cannot be seen here: its lock provider needs usingDbTime()",
        },
      ],
      promises: [
        "one holder at a time, by the clock of the server",
        "fences that rise, as far as that clock does not go back",
      ],
      limits: [
        "an order among those who wait: the first to ask after a release gets the lock",
        "mutual exclusion against a ShedLock that uses the clock of its own machine",
      ],
    };
  } catch (error) {
    throw toBackendError(error, "", false);
  } finally {
    await connection.close();
  }
};

function failOver({ standbys, replicas, synchronous }: Server): Finding {
  const check = "fail-over";
  if (standbys !== "" && !["local", "off"].includes(synchronous)) {
    return { level: "good", check, text: "replication is synchronous: a promoted standby has every lease" };
  }
  if (replicas === 0) return { level: "good", check, text: "no standby is connected" };
  return { level: "weak", check, text: "a promoted standby may lack the last leases: use synchronous replication" };
}
