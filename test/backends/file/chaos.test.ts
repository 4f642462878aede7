/** Four processes take two locks and are killed at random: mutual exclusion holds, and no fence is given twice. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SelfTestOptions, SelfTestResult } from "../../../src/cli/doctor/file-self-test.ts";
import { BUILD } from "../../dist.ts";

interface SelfTest {
  readonly selfTest: (directory: string, options?: SelfTestOptions) => Promise<SelfTestResult>;
}

test(
  "mutual exclusion survives 50 kills at random moments; `npm run chaos:file` tries as many as wanted",
  { timeout: 600_000 },
  async () => {
    const { selfTest } = (await import(join(BUILD, "cli/doctor/file-self-test.js"))) as SelfTest;
    const directory = mkdtempSync(join(tmpdir(), "hf-chaos-"));
    try {
      const result = await selfTest(directory, { workers: 4, kills: 50, killsForMs: 500_000 });
      expect(result).toMatchObject({ ok: true, kills: 50, faults: [] });
      expect(result.leases).toBeGreaterThan(50);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
);
