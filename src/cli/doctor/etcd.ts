/** `holdfast doctor` on `etcd:`: what this store promises, from what is found there. */
import { openBackend } from "../../backends/etcd/open.ts";
import type { Examine } from "./report.ts";

export const examineEtcd: Examine = async ({ url }) => {
  const backend = await openBackend(url);
  try {
    await backend.query("");
  } finally {
    await backend.close();
  }
  return { backend: "etcd", facts: {}, findings: [], promises: [], limits: [] };
};
