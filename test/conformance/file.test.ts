import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { file } from "../../src/backends/file/index.ts";
import { leftInFiles, leftInQueues } from "../../src/lab/leftovers.ts";
import { conformanceTests } from "./conformance-tests.ts";

const TOLD = "reports to the holder that its lease was ended by force, and why";

for (const hints of ["socket", "watch", "poll"] as const) {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-"));
  conformanceTests({
    name: `file, woken by ${hints}`,
    start: () => ({
      open: () => file({ dir, hints }),
      left: (prefix) => leftInQueues(dir, prefix),
      lateIds: "a lease file serves one claim after the other, and its text never changes",
    }),
    left: () => leftInFiles(dir),
    stop: async () => rmSync(dir, { recursive: true, force: true }),
    // The lease is broken all the same, and says so when it is renewed.
    declined: hints === "socket" ? {} : { [TOLD]: "without sockets a holder learns of it from its next renewal" },
  });
}
