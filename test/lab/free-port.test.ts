/** A port belongs to one process of the lab at a time, also while its server is away. */
import { existsSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";

const drawn: number[] = [];

vi.mock("node:crypto", async (original) => ({
  ...(await original<typeof import("node:crypto")>()),
  randomInt: (from: number, to: number) =>
    drawn.shift() ?? from + Math.floor(((to - from) * process.hrtime()[1]) / 1e9),
}));

const { freePort } = await import("../../src/lab/servers/free-port.ts");
const { startProxy } = await import("../../src/lab/proxy.ts");

const linkOf = (port: number): string => join(tmpdir(), `holdfast-ports-${process.getuid!()}`, String(port));

test("no port is given twice, in one process or in two, and that of a dead process is free again", async () => {
  const [first, theirs, dead] = [await freePort(), await freePort(), await freePort()];
  expect(readlinkSync(linkOf(first))).toBe(String(process.pid));
  // As if other processes had taken the two: one that lives, and one whose number none can have.
  for (const [port, pid] of [[theirs, process.ppid] as const, [dead, 4_194_400] as const]) {
    rmSync(linkOf(port));
    symlinkSync(String(pid), linkOf(port));
  }
  vi.resetModules();
  const other = await import("../../src/lab/servers/free-port.ts");
  drawn.push(first, theirs, dead);
  const next = await other.freePort();
  expect([first, theirs, dead]).not.toContain(next);
  expect(drawn).toEqual([]);
  drawn.push(dead);
  expect(await other.freePort()).toBe(dead);
  expect(readlinkSync(linkOf(theirs))).toBe(String(process.ppid));
  rmSync(linkOf(theirs));
});

test("a proxy that has ended gives its port back, so that a long run has ports left", async () => {
  const proxy = await startProxy({ port: 1 });
  expect(readlinkSync(linkOf(proxy.port))).toBe(String(process.pid));
  await proxy.stop();
  expect(existsSync(linkOf(proxy.port))).toBe(false);
  await proxy.stop();
});
