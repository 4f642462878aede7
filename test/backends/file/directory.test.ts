/** The directory: where it is by default, and which file systems are refused or warned about. */
import { execFileSync } from "node:child_process";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { defaultDirectory } from "../../../src/backends/file/directory.ts";
import { DIST } from "../../dist.ts";
import { claim, granted, Scratch } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

async function refusal(): Promise<LockBackendError> {
  const error: unknown = await scratch
    .open()
    .attempt(claim())
    .catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(LockBackendError);
  return error as LockBackendError;
}

test("the default directory is the user's, whatever the environment says", () => {
  const program = `import { file } from "${DIST}/backends/file/index.js"; console.log(file().directory)`;
  const places = [
    {},
    { HOME: "/elsewhere", TMPDIR: "/elsewhere", XDG_RUNTIME_DIR: "/elsewhere", XDG_STATE_HOME: "/elsewhere" },
  ].map((env) =>
    execFileSync(process.execPath, ["--input-type=module", "-e", program], { env, encoding: "utf8" }).trim(),
  );
  expect(new Set(places)).toEqual(new Set([join(userInfo().homedir, ".local/state/holdfast/locks")]));
  expect(defaultDirectory()).toBe(places[0]);
});

test("a relative directory is refused", () => {
  expect(() => scratch.open({ dir: "locks" })).toThrow(TypeError);
});

test("a file system without hard links is refused, with the reason", async () => {
  disk.link = () => {
    throw Object.assign(new Error("EPERM: operation not permitted, link"), { code: "EPERM" });
  };
  const error = await refusal();
  expect(error.fatal).toBe(true);
  expect(error.message).toMatch(/no hard links \(EPERM\).*local file system/);
});

test("a file system that keeps no milliseconds is refused", async () => {
  disk.utimes = (path, mtimeMs) => real.utimes(path, Math.floor(mtimeMs / 1000) * 1000);
  expect((await refusal()).message).toMatch(/no milliseconds/);
});

test("a network file system is warned about, and a local one is not", async () => {
  const warnings: (Error & { code?: string })[] = [];
  const hear = (warning: Error): unknown => warnings.push(warning);
  process.on("warning", hear);
  try {
    await granted(scratch.open(), claim());
    disk.fileSystemType = () => 0x6969;
    await granted(scratch.open(), claim({ name: "another" }));
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("warning", hear);
  }
  expect(warnings.map(({ code }) => code)).toEqual(["HOLDFAST_REMOTE_DIRECTORY"]);
  expect(warnings[0]!.message).toMatch(/NFS.*one machine only/);
});

test("a directory whose path is too long for a socket's address is no slower", async () => {
  const dir = join(scratch.dir, "d".repeat(120));
  const [a, b] = [scratch.open({ dir }), scratch.open({ dir })];
  const [holder, waiter] = [claim(), claim()];
  await granted(a, holder);
  const refused = await b.attempt(waiter);
  // Without working sockets it would say: ask again in some tens of milliseconds.
  expect(refused).toMatchObject({ granted: false, retryMs: expect.closeTo(1000, -3) });
  const watching = b.watch(waiter, new AbortController().signal);
  await a.release(holder);
  expect(await watching).toMatchObject({ granted: true });
});
