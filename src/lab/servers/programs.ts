/** Finds the server programs of the lab, and installs the Debian package that brings one where it may. */
import { execFile } from "node:child_process";
import { accessSync, constants, mkdirSync, readdirSync, rmdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { UnavailableError } from "../unavailable-error.ts";

const run = promisify(execFile);

interface Source {
  readonly debian: string;
  /** Looked into before PATH: where Debian keeps programs that are not on it. */
  readonly folders?: () => readonly string[];
}

export type ProgramName =
  | "redis-server"
  | "redis-sentinel"
  | "redis-cli"
  | "java"
  | "zookeeper.jar"
  | "keytool"
  | "javac"
  | "curator-recipes.jar"
  | "kazoo/client.py"
  | "gcc"
  | "spin"
  | "postgres"
  | "initdb"
  | "psql"
  | "pg_basebackup"
  | "pgbouncer"
  | "chromium"
  | "tmux"
  | "etcd"
  | "etcdctl"
  | "openssl";

const SOURCES: Readonly<Record<ProgramName, Source>> = {
  "redis-server": { debian: "redis-server" },
  "redis-sentinel": { debian: "redis-sentinel" },
  "redis-cli": { debian: "redis-tools" },
  java: { debian: "default-jre-headless" },
  "zookeeper.jar": { debian: "zookeeper", folders: () => ["/usr/share/java"] },
  keytool: { debian: "default-jre-headless" },
  javac: { debian: "default-jdk-headless" },
  "curator-recipes.jar": { debian: "libcurator-recipes-java", folders: () => ["/usr/share/java"] },
  "kazoo/client.py": { debian: "python3-kazoo", folders: () => ["/usr/lib/python3/dist-packages"] },
  gcc: { debian: "gcc" },
  spin: { debian: "spin" },
  postgres: { debian: "postgresql", folders: postgresFolders },
  initdb: { debian: "postgresql", folders: postgresFolders },
  psql: { debian: "postgresql", folders: postgresFolders },
  pg_basebackup: { debian: "postgresql", folders: postgresFolders },
  pgbouncer: { debian: "pgbouncer" },
  // For the tests that look at pages, and at terminals.
  chromium: { debian: "chromium" },
  tmux: { debian: "tmux" },
  etcd: { debian: "etcd-server" },
  etcdctl: { debian: "etcd-client" },
  openssl: { debian: "openssl" },
};

const INSTALL_LOCK = join(tmpdir(), "holdfast-lab-install.lock");
const INSTALL_MS = 300_000;

export interface ProgramSearch {
  /** Where to look. @default where Debian puts it, then PATH */
  readonly folders?: readonly string[] | undefined;
  /** @default when this is root */
  readonly mayInstall?: boolean | undefined;
}

/** The program's path: in the folders of HOLDFAST_LAB_PROGRAMS first, for other versions than the machine's. Installs its package if it is missing and we may; else throws an error that names the package. */
export async function findProgram(name: ProgramName, search: ProgramSearch = {}): Promise<string> {
  const found = look(name, search.folders);
  if (found !== undefined) return found;
  const { debian } = SOURCES[name];
  const mayInstall = search.mayInstall ?? process.getuid?.() === 0;
  if (!mayInstall) throw new UnavailableError(missing(name, "this user may not install packages"));
  await install(debian).catch((cause: unknown) => {
    throw new UnavailableError(missing(name, "installing it failed"), { cause });
  });
  const installed = look(name);
  if (installed === undefined) throw new UnavailableError(missing(name, "the package did not bring it"));
  return installed;
}

function missing(name: ProgramName, why: string): string {
  return `${name} is not on this machine, and ${why}. Install Debian's package: apt-get install ${SOURCES[name].debian}`;
}

function look(name: ProgramName, only?: readonly string[]): string | undefined {
  const source = SOURCES[name];
  const usual = [
    ...(process.env["HOLDFAST_LAB_PROGRAMS"]?.split(delimiter) ?? []),
    ...(source.folders?.() ?? []),
    ...(process.env["PATH"] ?? "").split(delimiter),
    "/usr/bin",
    "/usr/sbin",
  ];
  const mode = /\.(?:jar|py)$/u.test(name) ? constants.R_OK : constants.X_OK;
  return (only ?? usual).map((folder) => join(folder, name)).find((path) => isReachable(path, mode));
}

function isReachable(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Newest version first. */
function postgresFolders(): readonly string[] {
  const root = "/usr/lib/postgresql";
  try {
    const versions = readdirSync(root).toSorted((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(root, version, "bin"));
  } catch {
    return [];
  }
}

/** One installation at a time on this machine: apt refuses a second one instead of waiting for the first. */
async function install(debian: string): Promise<void> {
  const deadlineMs = performance.now() + INSTALL_MS;
  while (!takeInstallLock()) {
    if (performance.now() > deadlineMs) throw new Error(`another installation holds ${INSTALL_LOCK}`);
    await sleep(500);
  }
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const args = ["install", "-y", "--no-install-recommends", debian];
    await run("apt-get", args, { env, timeout: INSTALL_MS }).catch(async () => {
      await run("apt-get", ["update"], { env, timeout: INSTALL_MS });
      await run("apt-get", args, { env, timeout: INSTALL_MS });
    });
  } finally {
    rmdirSync(INSTALL_LOCK);
  }
}

/** mkdir is atomic. A lock as old as the longest installation belongs to a process that died in it. */
function takeInstallLock(): boolean {
  try {
    mkdirSync(INSTALL_LOCK);
    return true;
  } catch {
    try {
      if (Date.now() - statSync(INSTALL_LOCK).mtimeMs > INSTALL_MS) rmdirSync(INSTALL_LOCK);
    } catch {
      // Another process removed it first, which is as good.
    }
    return false;
  }
}
