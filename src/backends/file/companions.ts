/**
 * Companions: other processes that keep a backend's leases alive while they run, even after its own process has died. They are
 * listed in a file with the backend's name.
 */
import { join } from "node:path";
import { createFile, disk, remove, tryRename } from "./disk.ts";
import {
  comparableStart,
  isRunning,
  type ProcessIdentity,
  sharesProcessIds,
  startOf,
  thisProcess,
} from "./process-identity.ts";
import { type DirectoryPaths, freshName } from "./directory.ts";
import { isCount, isId, isListOf, isRecord, parseChecked, parseJson, withChecksum } from "./checked-text.ts";
import { isProcessIdentity, type LeaseFacts, PROCESS } from "./records.ts";

export interface Companion {
  readonly pid: number;
  readonly start: string;
}

export interface CompanionList {
  /** The process that wrote it. The pids are of its namespace. */
  readonly process: ProcessIdentity;
  readonly companions: readonly Companion[];
}

/** The companions of one backend. */
export class Companions {
  readonly #paths: DirectoryPaths;
  readonly #path: string;
  readonly #list: Companion[] = [];

  constructor(paths: DirectoryPaths, instance: string) {
    this.#paths = paths;
    this.#path = join(paths.companions, instance);
  }

  /** Returns what removes it again. */
  add(pid: number): () => void {
    const companion: Companion = { pid, start: startOf(pid) };
    this.#list.push(companion);
    this.#write();
    return () => {
      const at = this.#list.indexOf(companion);
      if (at < 0) return;
      this.#list.splice(at, 1);
      this.#write();
    };
  }

  /** Writes the list again after the directory was removed. */
  restore(): void {
    if (this.#list.length > 0) this.#write();
  }

  close(): void {
    remove(this.#path);
  }

  /** Written aside and renamed, so a reader never finds half a list. */
  #write(): void {
    if (this.#list.length === 0) return this.close();
    const aside = join(this.#paths.trash, freshName());
    createFile(aside, withChecksum({ [PROCESS]: thisProcess(), companions: this.#list }));
    if (!tryRename(aside, this.#path)) throw new Error(`${this.#path} could not be written`);
  }
}

/** Whether a companion of the backend that made this claim runs, as far as that can be seen from here. */
export function companionsOf(paths: DirectoryPaths, { instance, process }: LeaseFacts): "running" | "none" | "unknown" {
  if (!sharesProcessIds(process) || !isId(instance)) return "none";
  const path = join(paths.companions, instance);
  if (!disk.exists(path)) return "none";
  const list = readCompanions(path);
  if (list === undefined) return "unknown";
  return hasRunningCompanion(list) ? "running" : "none";
}

/** `undefined`: the file is gone, or cannot be read. */
export function readCompanions(path: string): CompanionList | undefined {
  try {
    return parseCompanions(disk.read(path) ?? "");
  } catch {
    return undefined;
  }
}

export function hasRunningCompanion({ process, companions }: CompanionList): boolean {
  return companions.some(({ pid, start }) => isRunning(pid, comparableStart(process, start)));
}

/** 0.1 wrote the list without a checksum: then the text must be exactly as 0.1 wrote it. */
export function parseCompanions(text: string): CompanionList | undefined {
  const checked = parseChecked(text);
  const value = checked ?? parseJson(text);
  if (!isRecord(value) || (checked === undefined && !isAsFirstWritten(text, value))) return undefined;
  const { [PROCESS]: process, companions } = value;
  return isProcessIdentity(process) && isListOf(companions, isCompanion) ? { process, companions } : undefined;
}

/** A text that lost its checksum later differs from what 0.1 wrote. */
function isAsFirstWritten(text: string, value: Record<string, unknown>): boolean {
  return Object.keys(value).join() === `${PROCESS},companions` && JSON.stringify(value) === text;
}

function isCompanion(value: unknown): value is Companion {
  return isRecord(value) && isCount(value["pid"]) && value["pid"] > 0 && typeof value["start"] === "string";
}
