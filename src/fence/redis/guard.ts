/** The guard in Redis: compare, remember and write in one script. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { checkFenced, checkLock, type Fenced, storedFence } from "../fenced.ts";
import { guard } from "../generated/scripts.ts";
import type { MarkStore } from "../marks.ts";
import { reject } from "../rejected.ts";
import { type RedisLike, type RedisValue, type RunScript, scriptRunner } from "./client.ts";

export interface MarkKeyOptions {
  /** What the keys of the marks start with, such as the backend's `prefix`. All writers of the data must agree. @default "holdfast" */
  readonly prefix?: string | undefined;
}

const PREFIX = "holdfast";
/** As in the Redis backend, so one ACL pattern fits both. */
const PREFIX_FORM = /^[^\s{}*?[\]\\]{1,200}$/u;

/**
 * The key of a lock's mark. In a Redis Cluster the data must be in the same slot: put the lock's name in the data
 * keys as a hash tag (`{invoice:42}:total`), or use a name that has a tag (`invoice:{42}`) and the same tag in the data keys.
 */
export function fenceKey(lock: string, options: MarkKeyOptions = {}): string {
  checkLock(lock);
  const { prefix = PREFIX } = options;
  if (!PREFIX_FORM.test(prefix)) {
    throw new ArgumentError(
      `Expected \`prefix\` to have no braces, spaces or glob characters, got ${JSON.stringify(prefix)}`,
    );
  }
  // The second colon keeps the names `x` and `{x}` apart.
  return hasTag(lock) ? `${prefix}:fence::${lock}` : `${prefix}:fence:{${lock}}`;
}

/** Redis hashes what is between the first `{` and the first `}` after it, unless that is empty. */
function hasTag(name: string): boolean {
  const open = name.indexOf("{");
  return open !== -1 && name.indexOf("}", open) > open + 1;
}

/** One command: its name, the key that it writes, and the rest: `["HSET", "invoice:42", "total", 110]`. */
export type RedisCommand = readonly [command: string, key: string, ...rest: (RedisValue | number | bigint)[]];

export interface WriteFencedOptions extends MarkKeyOptions {
  /** The key of the mark, where the data is not in the slot of {@link fenceKey}. All writers of the data must agree. */
  readonly mark?: string | undefined;
}

/** A script cannot pass on more arguments than this to one command. */
const MAX_ARGUMENTS = 5000;

/**
 * Runs the commands unless a later lease has been here, in one atomic step. Resolves to their replies.
 * Throws `FenceRejectedError`, with nothing written, when the mark is greater.
 */
export async function writeFenced(
  client: RedisLike,
  offered: Fenced,
  commands: readonly RedisCommand[],
  options: WriteFencedOptions = {},
): Promise<unknown[]> {
  const fenced = checkFenced(offered);
  const mark = options.mark ?? fenceKey(fenced.name, options);
  const answer = await ask(scriptRunner(client, guard), mark, fenced.fence, commands);
  if (answer.current !== undefined) throw reject("redis", fenced, answer.current);
  return answer.replies;
}

/** Keeps marks in Redis, for guards in front of something else, such as an HTTP middleware. */
export function redisMarks(client: RedisLike, options: MarkKeyOptions = {}): MarkStore {
  const run = scriptRunner(client, guard);
  return {
    async advance(lock, fence) {
      const { current } = await ask(run, fenceKey(lock, options), fence, []);
      return current ?? fence;
    },
  };
}

interface Answer {
  /** The mark that is greater than the fence; absent when admitted. */
  readonly current?: bigint;
  readonly replies: unknown[];
}

async function ask(run: RunScript, mark: string, fence: bigint, commands: readonly RedisCommand[]): Promise<Answer> {
  const keys = [mark, ...commands.map(([, key]) => key)];
  const values = [fence.toString(), ...commands.flatMap(encode)];
  const answer = await run(keys, values).catch((error: unknown) => {
    throw explain(error, mark);
  });
  if (!Array.isArray(answer)) throw new Error(`Expected a list from the guard's script, got ${typeof answer}`);
  const [admitted, ...rest] = answer as unknown[];
  if (Number(admitted) === 1) return { replies: rest };
  return { current: storedFence(String(rest[0]), mark), replies: [] };
}

function encode([command, key, ...rest]: RedisCommand): RedisValue[] {
  if (typeof command !== "string" || command === "" || typeof key !== "string") {
    throw new ArgumentError('Expected a command such as ["SET", key, value]: its name, the key it writes, the rest');
  }
  if (rest.length > MAX_ARGUMENTS) {
    throw new ArgumentError(
      `Expected at most ${MAX_ARGUMENTS} arguments after the key of ${command}, got ${rest.length}`,
    );
  }
  return [command, rest.length.toString(), ...rest.map(text)];
}

function text(value: RedisValue | number | bigint): RedisValue {
  return typeof value === "number" || typeof value === "bigint" ? value.toString() : value;
}

function explain(error: unknown, mark: string): unknown {
  if (!(error instanceof Error)) return error;
  if (error.message.startsWith("CROSSSLOT")) {
    return new ArgumentError(
      `Expected all keys in the slot of the mark ${JSON.stringify(mark)}: put the lock's name in them as a hash tag, or give \`mark\``,
      { cause: error },
    );
  }
  if (error.message.startsWith("FENCE ")) {
    return new Error(`Expected ${JSON.stringify(mark)} to hold a fence, found something else. Nothing was written.`, {
      cause: error,
    });
  }
  return error;
}
