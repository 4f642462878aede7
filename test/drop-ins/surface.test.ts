/** The public names of the drop-ins, under version control; and their types, as users compile them. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import * as onVerrou from "../../src/drop-ins/verrou/index.ts";
import * as onWebLocks from "../../src/drop-ins/web-locks/index.ts";
import { ROOT } from "../dist.ts";

test("each drop-in exports these names and no others", () => {
  expect(Object.keys(onWebLocks).toSorted()).toEqual(["installWebLocks", "webLocks"]);
  expect(Object.keys(onVerrou)).toEqual(["holdfastStore"]);
});

test("an app with any version of Verrou can install the core", () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    readonly peerDependencies: Readonly<Record<string, string>>;
  };
  expect(manifest.peerDependencies["@verrou/core"]).toBe("*");
});

const PROGRAM = `
import { Verrou } from "@verrou/core";
import type { LockStore } from "@verrou/core/types";
import { connect, type Lease } from "holdfast";
import { holdfastStore } from "holdfast/verrou";
import { installWebLocks, webLocks, type WebLockSnapshot } from "holdfast/web-locks";

export async function use(): Promise<void> {
  const locks = await connect("memory:");
  const manager = webLocks(locks);
  // What takes the standard's takes ours.
  const standard: LockManager = manager;
  await standard.request("a", { mode: "shared" }, async (lock) => lock?.name);
  (await manager.request("a", async (lock) => lock!.fence)) satisfies bigint;
  (await manager.request("a", { ifAvailable: true }, (lock) => lock === null)) satisfies boolean;
  (await manager.query()) satisfies WebLockSnapshot;
  installWebLocks(locks, { replace: true }) satisfies () => void;
  // @ts-expect-error There is no such mode.
  await manager.request("a", { mode: "alone" }, () => {});
  // @ts-expect-error The callback is required.
  await manager.request("a", {});

  const driver = holdfastStore(locks);
  driver.factory() satisfies LockStore;
  const verrou = new Verrou({ default: "main", stores: { main: { driver } } });
  driver.leaseOf(verrou.createLock("a", "10s")) satisfies Lease | undefined;
}
`;

test("their types are right for strict users, beside those of TypeScript's DOM library and of Verrou", async () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-types-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "node_modules"), { recursive: true });
  symlinkSync(ROOT, join(root, "node_modules/holdfast"));
  for (const scope of ["@types", "@verrou"])
    symlinkSync(join(ROOT, "node_modules", scope), join(root, "node_modules", scope));
  writeFileSync(join(root, "program.mts"), PROGRAM);
  const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--types", "node"];
  const target = ["--target", "es2022", "--lib", "es2023,esnext.disposable,dom", "--module", "nodenext"];
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const compile = promisify(execFile)(process.execPath, [tsc, ...options, ...target, "program.mts"], { cwd: root });
  expect((await compile.catch((error: { stdout: string }) => error)).stdout).toBe("");
});
