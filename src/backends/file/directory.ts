/** The lock directory: where it is, what is in it, and whether its file system can do what locks need. */
import { userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { ArgumentError } from "../../contract/argument-error.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { systemChance } from "../../contract/random.ts";
import { warn } from "../../contract/warning.ts";
import { codeOf, createFile, disk, remove } from "./disk.ts";

/** File systems that may be on another machine, by the kernel's numbers. */
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x65735546, "FUSE"],
  [0x01021997, "9P"],
  [0x5346414f, "AFS"],
  [0x6b414653, "AFS"],
  [0x00c36400, "Ceph"],
  [0x0bd00bd0, "Lustre"],
  [0x01161970, "GFS2"],
  [0x7461636f, "OCFS2"],
  [0x786f4256, "vboxsf"],
]);

/** Directories that this process has been warned about: once is enough. */
const warned = new Set<string>();

/** The paths in the lock directory. Each name is one letter, because socket paths must be short. */
export interface DirectoryPaths {
  readonly root: string;
  /** Lease files. */
  readonly leaseFiles: string;
  /** Locks: `<name>/<incarnation>/e<epoch>/<entry>`. */
  readonly locks: string;
  /** Tickets: `<name>/<arrival>-<lease file>`. */
  readonly queues: string;
  /** Records of leases ended by force. */
  readonly forced: string;
  /** Companions: other processes that keep a backend's leases alive. */
  readonly companions: string;
  readonly sockets: string;
  /** The greatest fence of any removed lock. */
  readonly floor: string;
  /** What is being made, and what is being removed. */
  readonly trash: string;
  /** The file that says that this directory was made for locks. */
  readonly marker: string;
}

export function pathsIn(dir: string): DirectoryPaths {
  if (!isAbsolute(dir)) throw new ArgumentError(`Expected \`dir\` to be an absolute path, got ${JSON.stringify(dir)}`);
  const root = resolve(dir);
  const at = (name: string): string => join(root, name);
  return {
    root,
    leaseFiles: at("o"),
    locks: at("l"),
    queues: at("q"),
    forced: at("f"),
    companions: at("a"),
    sockets: at("s"),
    floor: at("n"),
    trash: at("t"),
    marker: at("holdfast"),
  };
}

/**
 * The same directory for every process of a user, from the passwd entry. Not from `$HOME`, `TMPDIR` or
 * `XDG_RUNTIME_DIR`, which differ between a shell, cron and a service: two directories mean no mutual exclusion, without any error.
 */
export function defaultDirectory(): string {
  let incarnation = "";
  try {
    incarnation = userInfo().homedir;
  } catch {
    // A uid without a passwd entry, as in many containers.
  }
  if (!isAbsolute(incarnation) || incarnation === "/") {
    throw new LockBackendError(
      "file",
      "",
      'The user of this process has no home directory in the passwd entry, so there is no default directory for locks. Name one, the same for all processes: file({ dir: "/var/lib/app/locks" }) or file:///var/lib/app/locks.',
      { fatal: true },
    );
  }
  return process.platform === "win32"
    ? join(incarnation, "AppData", "Local", "holdfast", "locks")
    : join(incarnation, ".local", "state", "holdfast", "locks");
}

/** A name that is made only once: 96 bits. */
export function freshName(): string {
  return systemChance.id().slice(0, 16);
}

export function isFreshName(name: string): boolean {
  return /^[-_A-Za-z0-9]{16}$/.test(name);
}

/** Throws unless the file system can do what locks need. Warns where it may be remote. */
export function checkFileSystem(paths: DirectoryPaths): void {
  const flaw = hardLinkFlaw(paths);
  if (flaw !== undefined) throw unsuitable(paths.root, flaw.why, flaw.cause);
  warnIfRemote(paths);
}

/** The error for a directory that cannot be trusted with locks. */
export function unsuitable(root: string, why: string, cause?: unknown): LockBackendError {
  return new LockBackendError("file", "", `Locks cannot be kept in ${root}: ${why}`, { fatal: true, cause });
}

/** Nothing but link(2) is atomic and reports who was second; and mtimes are the ends of leases. */
function hardLinkFlaw(paths: DirectoryPaths): { readonly why: string; readonly cause?: unknown } | undefined {
  const one = join(paths.trash, freshName());
  const two = `${one}.2`;
  createFile(one, "");
  try {
    disk.link(one, two);
    const instantMs = 1_234_567_891;
    disk.utimes(one, instantMs);
    const readMs = disk.times(two)?.mtimeMs ?? Number.NaN;
    if (Math.abs(readMs - instantMs) <= 1) return undefined;
    return {
      why: "its file system keeps no milliseconds. Use a local file system such as ext4, xfs, btrfs, tmpfs or APFS.",
    };
  } catch (cause) {
    return {
      why: `its file system has no hard links (${codeOf(cause)}). Use a local file system such as ext4, xfs, btrfs, tmpfs, APFS or NTFS.`,
      cause,
    };
  } finally {
    remove(one);
    remove(two);
  }
}

function warnIfRemote(paths: DirectoryPaths): void {
  if (process.platform === "win32") return;
  const kind = process.platform === "linux" ? NETWORK.get(disk.fileSystemType(paths.root)) : undefined;
  if (kind === undefined || warned.has(paths.root)) return;
  warned.add(paths.root);
  warn(
    "HOLDFAST_REMOTE_DIRECTORY",
    `The lock directory ${paths.root} is on a ${kind} file system, which may be shared with other machines. Locks in it hold between processes of one machine only.`,
  );
}
