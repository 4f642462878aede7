/** Loaded before every test file: notes at its end, after its own hooks, what the file's process has used. */
import { afterAll } from "vitest";
import { spentMs } from "./spent.ts";

declare module "vitest" {
  interface TaskMeta {
    /** Processor time of a test file, with its servers and other programs. Each file has a process of its own. */
    spentMs?: number;
  }
}

// Vitest wants to see a pattern here.
// oxlint-disable-next-line no-empty-pattern
afterAll(({}, file) => {
  file.meta.spentMs = spentMs();
});
