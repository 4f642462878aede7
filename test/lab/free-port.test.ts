/** A port belongs to one process of the lab at a time, also while its server is away. */
import { lstatSync, mkdtempSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";

// A directory of its own: other tests that begin meanwhile remove what dead processes left.
const directory = mkdtempSync(join(tmpdir(), "hf-ports-"));
vi.stubEnv("TMPDIR", directory);
afterAll(() => rmSync(directory, { recursive: true }));

const drawn: number[] = [];

vi.mock("node:crypto", async (original) => ({
  ...(await original<typeof import("node:crypto")>()),
  randomInt: (from: number, to: number) =>
    drawn.shift() ?? from + Math.floor(((to - from) * process.hrtime()[1]) / 1e9),
}));

const { freePort } = await import("../../src/lab/servers/free-port.ts");
const { startProxy } = await import("../../src/lab/proxy.ts");

const linkOf = (port: number): string => join(directory, `holdfast-ports-${process.getuid!()}`, String(port));

test("no port is given twice, in one process or in two, and that of a dead process is free again", async () => {
  const [first, theirs, dead] = [await freePort(), await freePort(), await freePort()];
  expect(readlinkSync(linkOf(first))).toBe(String(process.pid));
  vi.resetModules();
  const other = await import("../../src/lab/servers/free-port.ts");
  await other.freePort();
  // As if other processes had taken the two: one that lives, and one whose number none can have.
  for (const [port, pid] of [[theirs, process.ppid] as const, [dead, 4_194_400] as const]) {
    rmSync(linkOf(port));
    symlinkSync(String(pid), linkOf(port));
  }
  drawn.push(first, theirs, dead);
  const next = await other.freePort();
  expect([first, theirs, dead]).not.toContain(next);
  expect(drawn).toEqual([]);
  drawn.push(dead);
  expect(await other.freePort()).toBe(dead);
  expect(readlinkSync(linkOf(theirs))).toBe(String(process.ppid));

  // What a dead process left is removed by the next that begins, if none has drawn it before.
  rmSync(linkOf(dead));
  symlinkSync("4194400", linkOf(dead));
  vi.resetModules();
  await (await import("../../src/lab/servers/free-port.ts")).freePort();
  expect(lstatSync(linkOf(dead), { throwIfNoEntry: false })).toBeUndefined();
  expect(readlinkSync(linkOf(theirs))).toBe(String(process.ppid));
  rmSync(linkOf(theirs));
});

test("a proxy that has ended gives its port back, so that a long run has ports left", async () => {
  const proxy = await startProxy({ port: 1 });
  expect(readlinkSync(linkOf(proxy.port))).toBe(String(process.pid));
  await proxy.stop();
  expect(lstatSync(linkOf(proxy.port), { throwIfNoEntry: false })).toBeUndefined();
  await proxy.stop();
});
