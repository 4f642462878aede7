/** `holdfast doctor` on `postgres:`: what this store promises, from what is found there. */
import { openBackend } from "../../backends/postgres/open.ts";
import type { Examine } from "./report.ts";

export const examinePostgres: Examine = async ({ url }) => {
  const backend = await openBackend(url);
  try {
    await backend.query("");
  } finally {
    await backend.close();
  }
  return { backend: "postgres", facts: {}, findings: [], promises: [], limits: [] };
};
