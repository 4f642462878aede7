/** The file backend: its directory, the file system under it, and which users may write there. */
import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { seesProcesses } from "../../backends/file/process-identity.ts";
import { openBackend } from "../../backends/file/open.ts";
import { selfTest } from "./file-self-test.ts";
import { printable } from "../../contract/foreign.ts";
import type { Examine, ExamineOptions, Finding } from "./report.ts";

/** By the kernel's numbers. Network file systems are weak: they seem to share locks with other machines, and do not. */
const FILE_SYSTEMS: ReadonlyMap<number, readonly [name: string, remote: boolean]> = new Map([
  [0xef53, ["ext4", false]],
  [0x58465342, ["xfs", false]],
  [0x9123683e, ["btrfs", false]],
  [0x01021994, ["tmpfs", false]],
  [0x794c7630, ["overlayfs", false]],
  [0x2fc12fc1, ["zfs", false]],
  [0xf2f52010, ["f2fs", false]],
  [0x6969, ["NFS", true]],
  [0x517b, ["SMB", true]],
  [0xff534d42, ["CIFS", true]],
  [0xfe534d42, ["SMB2", true]],
  [0x65735546, ["FUSE", true]],
  [0x01021997, ["9P", true]],
  [0x00c36400, ["Ceph", true]],
  [0x0bd00bd0, ["Lustre", true]],
  [0x786f4256, ["vboxsf", true]],
]);
const LOW_BYTES = 16 * 1024 * 1024;

export const examineFile: Examine = async ({ url, selfTest, say }) => {
  const backend = await openBackend(url);
  const { directory } = backend;
  const findings: Finding[] = [];
  try {
    // Opens, checks ownership and hard links, and refuses with a reason where locks cannot be kept.
    const { held, pending } = await backend.query("");
    findings.push(
      {
        level: "good",
        check: "usable",
        text: `the directory can be used; ${held.length} held, ${pending.length} waiting`,
      },
      { level: "good", check: "hard-links", text: "its file system has hard links and keeps milliseconds" },
      permissions(directory),
      fileSystem(directory),
      space(directory),
    );
  } catch (error) {
    findings.push({ level: "broken", check: "usable", text: error instanceof Error ? error.message : String(error) });
  } finally {
    await backend.close();
  }
  findings.push(liveness());
  if (selfTest) findings.push(...(await runSelfTest(directory, say)));
  return { backend: "file", facts: factsOf(directory), findings, promises: PROMISES, limits: LIMITS };
};

const PROMISES = [
  "one holder at a time (or as many as --limit) among all processes of this user that use this directory",
  "a holder that dies is replaced at once; one that hangs, after its ttl",
  "fences that rise, also after a reboot and after the directory was deleted",
  "first come, first served",
];
const LIMITS = [
  "anything between machines: one machine, one directory. Containers must mount the same directory",
  "anything between users: each needs a directory of its own",
  "fences that rise when the directory is deleted and the wall clock is set back at the same time",
];

function factsOf(directory: string): Record<string, string | number> {
  const kind = kindOf(directory);
  return {
    directory,
    "file system": kind === undefined ? "unknown" : (FILE_SYSTEMS.get(kind)?.[0] ?? `0x${kind.toString(16)}`),
    node: process.version,
    platform: process.platform,
  };
}

function permissions(directory: string): Finding {
  const { mode, uid } = statSync(directory);
  const octal = (mode & 0o777).toString(8);
  const check = "permissions";
  if (process.getuid !== undefined && uid !== process.getuid()) {
    return { level: "broken", check, text: `the directory belongs to uid ${uid}; give each user its own` };
  }
  if ((mode & 0o077) !== 0) {
    return { level: "weak", check, text: `mode ${octal} lets others in; chmod 700 ${printable(directory)}` };
  }
  return { level: "good", check, text: `mode ${octal}: no other user can touch the locks` };
}

function liveness(): Finding {
  const check = "liveness";
  if (process.platform !== "linux") {
    const text = "this system is untested; a dead holder may be noticed only when its ttl is over";
    return { level: "weak", check, text };
  }
  if (!seesProcesses()) {
    const text =
      "/proc is missing, or is that of another pid namespace: a dead holder may be noticed only when its ttl is over";
    return { level: "weak", check, text };
  }
  const text = "a dead holder is noticed in milliseconds, by boot id, pid, start time and pid namespace";
  return { level: "good", check, text };
}

function fileSystem(directory: string): Finding {
  const check = "file-system";
  const kind = kindOf(directory);
  const [name, remote] = (kind === undefined ? undefined : FILE_SYSTEMS.get(kind)) ?? [undefined, undefined];
  if (name === undefined) return { level: "unknown", check, text: "the type of the file system is unknown" };
  if (!remote) return { level: "good", check, text: `${name} is a local file system` };
  const text = `${name} may be shared with other machines; locks in it hold between processes of one machine only`;
  return { level: "weak", check, text };
}

function space(directory: string): Finding {
  const check = "space";
  try {
    const { bavail, bsize, ffree, files } = statfsSync(directory);
    const freeBytes = bavail * bsize;
    if (freeBytes < LOW_BYTES)
      return { level: "weak", check, text: `only ${Math.floor(freeBytes / 1024)} KiB are free` };
    if (files > 0 && ffree < 1000) return { level: "weak", check, text: `only ${ffree} inodes are free` };
    return { level: "good", check, text: "there is room on the disk" };
  } catch {
    return { level: "unknown", check, text: "the free space cannot be read" };
  }
}

/** Of the directory, or of the nearest one above it that exists. */
function kindOf(directory: string): number | undefined {
  for (let path = directory; ; path = dirname(path)) {
    try {
      // The kernel's number is signed on some systems.
      return statfsSync(path).type >>> 0;
    } catch {
      if (path === dirname(path)) return undefined;
    }
  }
}

async function runSelfTest(directory: string, say: ExamineOptions["say"]): Promise<readonly Finding[]> {
  const check = "self-test";
  const { ok, kills, leases, faults } = await selfTest(directory, { say });
  const text = `${leases} leases taken while ${kills} processes were killed: never two holders, no fence twice`;
  return ok ? [{ level: "good", check, text }] : faults.map((fault) => ({ level: "broken", check, text: fault }));
}
