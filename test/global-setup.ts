/** Runs once before all tests: the server programs are there, build/ and dist/ are what src/ says, and there is a bundle of it. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CLASSES_VARIABLE } from "../src/lab/servers/java-classes.ts";
import { TEMPLATE_VARIABLE } from "../src/lab/servers/postgres.ts";
import { findProgram, type ProgramName } from "../src/lab/servers/programs.ts";
import { makeScratch } from "../src/lab/servers/scratch.ts";
import { labPassword } from "../src/lab/servers/secret.ts";
import { bundleDist } from "./bundle.ts";

const PROGRAMS: readonly ProgramName[] = [
  "redis-server",
  "redis-sentinel",
  "redis-cli",
  "java",
  "zookeeper.jar",
  "postgres",
  "pgbouncer",
  "gcc",
  "spin",
  "chromium",
  "tmux",
  "etcd",
  "etcdctl",
  "openssl",
];

/** Installs what is missing where that is allowed. Throws, naming every package to install, where it is not. */
export async function setup(): Promise<void> {
  const missing: string[] = [];
  for (const name of PROGRAMS) {
    await findProgram(name).catch((error: Error) => missing.push(error.message));
  }
  // Elsewhere there are no packages of Debian: what needs no server is run there, and what needs one fails by itself.
  if (missing.length > 0 && process.platform === "linux")
    throw new Error(`The tests start real servers.\n${missing.join("\n")}`);
  // Node 20 reads these certificates at every start, for longer than the rest of the start takes; the thousands of
  // processes that tests start talk to no other machine.
  delete process.env["NODE_EXTRA_CA_CERTS"];
  const script = fileURLToPath(new URL("../scripts/ensure-built.mjs", import.meta.url));
  execFileSync(process.execPath, [script], { stdio: ["ignore", "inherit", "inherit"] });
  process.env["HOLDFAST_TEST_BUNDLE"] = await bundleDist();
  // All test files copy one new database, so they all have its password.
  labPassword();
  process.env[TEMPLATE_VARIABLE] = makeScratch();
  process.env[CLASSES_VARIABLE] = makeScratch();
}
