/** `@opentelemetry/api` is an optional peer of any version: what is too old is refused where it is loaded, with what to install. */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { installedVersion, whyUnsupported } from "../../src/contract/peer-version.ts";
import { OLDEST_API } from "../../src/telemetry/otel/instrument.ts";
import { ROOT } from "../dist.ts";

test("the version that is tested is one that is supported", () => {
  const version = installedVersion("@opentelemetry/api", import.meta.url);
  expect(version).toMatch(/^1\.9\./);
  expect(whyUnsupported("@opentelemetry/api", version, OLDEST_API)).toBeUndefined();
  expect(whyUnsupported("@opentelemetry/api", "1.10.0", OLDEST_API)).toBeUndefined();
  expect(whyUnsupported("@opentelemetry/api", "2.0.0", OLDEST_API)).toMatch(/supports \^1\.9\.0/);
});

test("an API that is too old is refused when the module is loaded; the other two modules need none", async () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-otel-peer-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  cpSync(join(ROOT, "dist"), join(root, "node_modules/holdfast/dist"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(root, "node_modules/holdfast/package.json"));
  const api = join(root, "node_modules/@opentelemetry/api");
  const load = async (module: string): Promise<string> => {
    const program = `import("holdfast/${module}").then(() => console.log("loaded"), (e) => console.log(e.code, e.message));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], {
      cwd: root,
    });
    return stdout.trim();
  };
  expect(await load("otel")).toMatch(/^ERR_MODULE_NOT_FOUND .*@opentelemetry\/api/);
  mkdirSync(api, { recursive: true });
  const manifest = JSON.parse(
    readFileSync(join(ROOT, "node_modules/@opentelemetry/api/package.json"), "utf8"),
  ) as object;
  cpSync(join(ROOT, "node_modules/@opentelemetry/api/build"), join(api, "build"), { recursive: true });
  writeFileSync(join(api, "package.json"), JSON.stringify({ ...manifest, version: "1.8.0" }));
  expect(await load("otel")).toBe(
    "ERR_LOCK_ARGUMENT holdfast/otel: @opentelemetry/api 1.8.0 is installed, but Holdfast supports ^1.9.0: npm install @opentelemetry/api@1",
  );
  expect(await load("prometheus")).toBe("loaded");
  expect(await load("log")).toBe("loaded");
});
