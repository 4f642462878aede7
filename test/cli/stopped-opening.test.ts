/** A signal while a command opens its store, which may take for ever: the command ends at once, as after any other signal. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test, vi } from "vitest";

import { acquireCommand } from "../../src/cli/commands/acquire.ts";
import { runCommand } from "../../src/cli/commands/run.ts";
import { waitCommand } from "../../src/cli/commands/wait.ts";
import { parseFlags } from "../../src/cli/flags.ts";
import { type Io, processIo } from "../../src/cli/io.ts";
import type { Backend } from "../../src/contract/backend.ts";

let opening: (() => void) | undefined;
let open: (backend: Backend) => void = () => {};
vi.mock(import("../../src/connect.ts"), async (original) => ({
  ...(await original()),
  openBackend: () =>
    new Promise<Backend>((resolve) => {
      open = resolve;
      opening?.();
    }),
}));

const dir = mkdtempSync(join(tmpdir(), "holdfast-opening-"));
afterAll(() => rmSync(dir, { recursive: true }));
const io: Io = { ...processIo(), env: { HOLDFAST_STATE_DIR: join(dir, "claims"), PATH: process.env["PATH"] } };

let begun: Promise<void>;
beforeEach(() => {
  begun = new Promise((resolve) => (opening = resolve));
});

test.each([
  ["acquire", acquireCommand, ["x"]],
  ["run", runCommand, ["x", "--", "true"]],
  ["wait", waitCommand, ["x"]],
] as const)("ends %s, and what opens later is closed", async (name, command, args) => {
  const flags = parseFlags(name, command.spec.flags, ["--url", "redis://127.0.0.1:1", ...args]);
  const done = command.run(io, flags);
  await begun;
  process.emit("SIGHUP", "SIGHUP");
  expect(await done).toBe(129);
  const close = vi.fn(async () => {});
  open({ close } as unknown as Backend);
  await expect.poll(() => close.mock.calls.length).toBe(1);
});
