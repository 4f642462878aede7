/** Who this process is to others: remembered for good, so never from a moment in which the system could not be asked. */
import type * as FileSystem from "node:fs";
import { afterEach, expect, test, vi } from "vitest";

afterEach(() => {
  vi.doUnmock("node:fs");
  vi.resetModules();
});

test.runIf(process.platform === "linux")(
  "a process without open files left is unknown for that long, not for good",
  async () => {
    let isShort = true;
    vi.resetModules();
    vi.doMock("node:fs", async (original) => {
      const real = await original<typeof FileSystem>();
      const readFileSync = (...args: Parameters<typeof real.readFileSync>): unknown => {
        if (isShort) throw Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
        return real.readFileSync(...args);
      };
      return { ...real, readFileSync };
    });
    const { isDead, seesProcesses, thisProcess } = await import("../../../src/backends/file/process-identity.ts");
    expect(() => thisProcess()).toThrow("EMFILE");
    expect(seesProcesses()).toBe(false);
    isShort = false;
    const identity = thisProcess();
    expect(identity).toMatchObject({
      boot: expect.stringMatching(/^[-0-9a-f]{36}$/),
      start: expect.stringMatching(/^\d+$/),
    });
    expect(seesProcesses()).toBe(true);
    expect(isDead({ ...identity, start: "1" }), "the pid was used again").toBe(true);
  },
);
