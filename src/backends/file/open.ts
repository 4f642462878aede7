/** Opens `file:` URLs, and the renewer for a worker thread. */
import { fileURLToPath } from "node:url";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Renewer } from "../../contract/backend.ts";
import { FileBackend } from "./backend.ts";

/** Opens `file:` (the user's own directory) or `file:///path`. */
export async function openBackend(url: string): Promise<FileBackend> {
  if (!url.startsWith("file:")) {
    throw new ArgumentError('Expected `url` to start with "file:", such as "file:" or "file:///var/lib/app/locks"');
  }
  return new FileBackend({ dir: directoryOf(url) });
}

/** Opens what a worker thread needs to renew leases that the main thread acquired in that directory. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  const dir = typeof data === "object" && data !== null && "dir" in data ? data.dir : undefined;
  if (typeof dir !== "string") throw new ArgumentError("Expected `data` to name a directory");
  return new FileBackend({ dir, renewsOnly: true });
}

function directoryOf(url: string): string | undefined {
  if (/[?#]/.test(url)) {
    throw new ArgumentError(
      "Expected no options after ? or # in `url`: file: has none. In a path, write %3F or %23 for them",
    );
  }
  if (/^file:(?:\/\/)?$/.test(url)) return undefined;
  // A relative path would mean another directory for every process that starts elsewhere.
  if (!/^file:\/\/(?:localhost)?\//.test(url) && !/^file:\/[^/]/.test(url)) {
    throw new ArgumentError(
      `Expected \`url\` to be "file:" or "file:///" and an absolute path, got ${JSON.stringify(url.replace(/^file:(\/*).*@/s, "file:$1***@"))}`,
    );
  }
  const path = fileURLToPath(url);
  if (path.includes("\0")) throw new ArgumentError("Expected no NUL character in the path of `url`");
  return path;
}
