/** `doctor --foreign`: lock keys of other libraries in a Redis, by their structure: whose they are, and which layout shares them. It only reads. */
import { connectionOf } from "../../backends/redis/clients/choose.ts";
import type { Primary } from "../../backends/redis/connection.ts";
import { confirm, openClient } from "../../backends/redis/open.ts";
import { parseUrl } from "../../backends/redis/url.ts";
import type { Examine, Finding } from "./report.ts";

/** So many keys of each kind are looked at, of each primary. */
const KEYS_MAX = 100_000;
const PAGE = 500;
const NAMES_SHOWN = 3;
/** Of a value: as much as says whose it is. It is not shown. */
const VALUE_MAX = 100;

interface Kind {
  readonly library: string;
  readonly advice: string;
}

const PLAIN = "layout=plain shares them";
const REDISSON: Kind = { library: "Redisson (hashes)", advice: "layout=redisson, and not layout=plain, shares them" };
const SEMAPHORE: Kind = {
  library: "redis-semaphore, semaphores",
  advice: "no layout shares them; the drop-in holdfast/redis-semaphore does",
};

/** The first that fits. The key's own form says more than its value. */
const STRINGS: readonly (Kind & { readonly key?: RegExp; readonly value?: RegExp })[] = [
  { library: "Holdfast, layout=plain", advice: "nothing is to be done", value: /^holdfast:[\w-]+:\d+:/u },
  { library: "BullMQ (jobs)", advice: "leave them: they belong to its queues", key: /^[^:]+:[^:]+:[^:]+:lock$/u },
  {
    library: "redis-semaphore, mutexes",
    advice: `${PLAIN}, with prefix=mutex:, and so does holdfast/redis-semaphore`,
    key: /^mutex:/u,
  },
  {
    library: "ShedLock",
    advice: `${PLAIN}, if ShedLock has safeUpdate, with prefix=job-lock:<env>:`,
    key: /^job-lock:/u,
  },
  { library: "pottery", advice: `${PLAIN}, with prefix=redlock:`, key: /^redlock:/u },
  { library: "redis-py", advice: PLAIN, value: /^[0-9a-f]{12}1[0-9a-f]{3}[89ab][0-9a-f]{15}$/u },
  { library: "redlock (npm)", advice: `${PLAIN}, and so does holdfast/redlock`, value: /^[0-9a-f]{32}$/u },
  { library: "redsync", advice: PLAIN, value: /^[A-Za-z0-9+/]{22}==$/u },
  { library: "DistributedLock.Redis", advice: PLAIN, value: /^.+_\d+_[0-9a-f]{32}$/u },
  { library: "a library that writes UUIDs", advice: PLAIN, value: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u },
];

export const examineForeign: Examine = async ({ url }) => {
  const at = url.indexOf("?");
  const params = new URLSearchParams(at < 0 ? "" : url.slice(at + 1));
  for (const own of ["layout", "gap", "events", "kind", "watchdog"]) params.delete(own);
  const endpoint = parseUrl(at < 0 ? url : url.slice(0, at) + (params.size === 0 ? "" : `?${params.toString()}`));
  const opened = await openClient(endpoint);
  try {
    const connection = connectionOf(opened.client);
    await confirm(endpoint, opened, connection);
    const found = new Map<Kind, string[]>();
    let looked = 0;
    let isWhole = true;
    for (const primary of await connection.primaries()) {
      for (const type of ["string", "hash", "zset"]) {
        const seen = await scan(primary, type, (key, kind) => found.set(kind, [...(found.get(kind) ?? []), key]));
        looked += seen;
        isWhole &&= seen < KEYS_MAX;
      }
    }
    return {
      backend: "redis",
      facts: { "keys looked at": looked },
      findings: [...[...found].map(([kind, keys]) => finding(kind, keys)), ...rest(found.size, isWhole)],
      promises: ["nothing was changed, and no value is shown"],
      limits: [
        "certainty: a key is judged by its form, and other data may look alike",
        "locks that are free at this moment",
      ],
    };
  } finally {
    await opened.close();
  }
};

function finding({ library, advice }: Kind, keys: readonly string[]): Finding {
  const names = keys.slice(0, NAMES_SHOWN).map((key) => JSON.stringify(key));
  const more = keys.length > names.length ? " and others" : "";
  return { level: "good", check: library, text: `${library}: ${keys.length}, ${names.join(", ")}${more}; ${advice}` };
}

function rest(kinds: number, isWhole: boolean): readonly Finding[] {
  const check = "keys";
  if (!isWhole) return [{ level: "unknown", check, text: `only the first ${KEYS_MAX} keys of a kind were looked at` }];
  return kinds === 0 ? [{ level: "good", check, text: "no key looks like a lock" }] : [];
}

/** Returns how many keys it has looked at. */
async function scan(primary: Primary, type: string, add: (key: string, kind: Kind) => void): Promise<number> {
  const seen = new Set<string>();
  let cursor = "0";
  do {
    const reply = await primary.command(["SCAN", cursor, "COUNT", String(PAGE), "TYPE", type]);
    if (!Array.isArray(reply) || !Array.isArray(reply[1])) throw new Error("unexpected reply to SCAN");
    cursor = String(reply[0]);
    const keys = reply[1].map(String).filter((key) => !seen.has(key));
    const kinds = await Promise.all(keys.map((key) => kindOf(primary, type, key)));
    for (const [at, key] of keys.entries()) {
      seen.add(key);
      const kind = kinds[at];
      if (kind !== undefined) add(key, kind);
    }
  } while (cursor !== "0" && seen.size < KEYS_MAX);
  return seen.size;
}

async function kindOf(primary: Primary, type: string, key: string): Promise<Kind | undefined> {
  if (type === "zset") return key.startsWith("semaphore:") ? SEMAPHORE : undefined;
  // One that has changed since, or is hidden from this user, is passed over.
  if (type === "hash") {
    const reply = await primary.command(["HSCAN", key, "0", "COUNT", "10"]).catch(() => []);
    const fields: unknown = Array.isArray(reply) ? reply[1] : [];
    const isTheirs =
      Array.isArray(fields) && fields.some((field) => /^[0-9a-f-]{36}:-?\d+(?::write)?$/u.test(String(field)));
    return isTheirs ? REDISSON : undefined;
  }
  const value = String(await primary.command(["GETRANGE", key, "0", String(VALUE_MAX - 1)]).catch(() => ""));
  return STRINGS.find((kind) => (kind.key?.test(key) ?? true) && (kind.value?.test(value) ?? true));
}
