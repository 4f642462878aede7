/**
 * The judge of what is left in a store: reads the store itself, past the backend, and names what should not be there. What a store keeps
 * on purpose (a lock's last fence, records of forced releases, markers) is named here, and has an end.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Backend } from "../contract/backend.ts";
import { machineMs } from "../contract/machine-clock.ts";
import { toDirectory } from "../backends/file/epochs.ts";
import { pathsIn } from "../backends/file/directory.ts";
import { namesOf } from "../backends/redis/keys.ts";
import type { EtcdClient } from "../backends/etcd/index.ts";
import { below } from "../backends/etcd/keys.ts";
import type { ZooKeeperClient } from "../backends/zookeeper/index.ts";

/** What a backend shows of locks whose names start with `prefix`. */
export async function leftToSee(backend: Pick<Backend, "query">, prefix: string): Promise<readonly string[]> {
  const { held, pending } = await backend.query(prefix);
  return [
    ...held.map(({ name, holder }) => `lease of ${holder} on ${name}`),
    ...pending.map(({ name, holder }) => `waiting claim of ${holder} on ${name}`),
  ];
}

/**
 * Every key of the server: it has an end; it is a marker, or a lock without holders, waiters and outcome. Records whose own
 * time is over may stay there until the lock is used again: they count for nothing, and the key has its end.
 */
const LOOK = `
local left, cursor = {}, "0"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function lasts(record) return (tonumber(string.match(record or "", "^(%d+) ")) or math.huge) > now end
local function judge(key)
  if redis.call("PTTL", key) == -1 then left[#left + 1] = "a key without an end: " .. key end
  if string.sub(key, -1) == "}" then return end
  if redis.call("TYPE", key).ok ~= "hash" then
    left[#left + 1] = "a key that is no lock: " .. key
    return
  end
  local fields, values = redis.call("HGETALL", key), {}
  for i = 1, #fields, 2 do values[fields[i]] = fields[i + 1] end
  for field, value in pairs(values) do
    local kind, rest = string.sub(field, 1, 1), string.sub(field, 2)
    local alone = field == "s" and string.match(value, "^%d+ %d+ =%S+ (.*)$")
    if alone and lasts(alone) then left[#left + 1] = "a lease in " .. key
    elseif kind == "h" and lasts(value) then left[#left + 1] = "a lease in " .. key
    elseif kind == "w" and lasts(value) then left[#left + 1] = "a waiting claim in " .. key
    elseif kind == "r" and lasts(value) then left[#left + 1] = "an outcome in " .. key
    elseif kind == "q" and string.sub(value, 1, 1) ~= " " and not values["w" .. value] then
      left[#left + 1] = "a place in the queue of " .. key .. " without a waiter"
    elseif not string.find("shwqofbre", kind, 1, true) then left[#left + 1] = "a field " .. field .. " in " .. key end
  end
end
repeat
  local page = redis.call("SCAN", cursor, "MATCH", ARGV[1], "COUNT", 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do judge(key) end
until cursor == "0"
return left`;

/** Who can be asked: a server of the lab, or a node of a cluster. */
export interface RedisToAsk {
  cli(...args: string[]): Promise<string>;
}

/** Without a prefix: everything in the server, also what is not ours. */
export async function leftInRedis(server: RedisToAsk, prefix?: string): Promise<readonly string[]> {
  const glob = prefix === undefined ? "*" : namesOf("holdfast", false).glob(prefix);
  const answer = await server.cli("EVAL", LOOK, "0", glob);
  return answer.split("\n").filter((line) => line !== "");
}

/** Of a directory of locks: tickets of locks whose names start with `prefix`. */
export function leftInQueues(dir: string, prefix?: string): readonly string[] {
  const { queues } = pathsIn(dir);
  const ours = (directory: string): boolean => prefix === undefined || directory.startsWith(toDirectory(prefix));
  return list(queues)
    .filter((directory) => ours(directory))
    .flatMap((directory) => list(join(queues, directory)).map((name) => `a ticket ${name} in ${directory}`));
}

/** Where no process was killed, also: no socket, no companion, and no lease file of a lease that lasts. */
export function leftInFiles(dir: string): readonly string[] {
  const paths = pathsIn(dir);
  return [
    ...leftInQueues(dir),
    ...list(paths.sockets).map((name) => `a socket ${name}`),
    ...list(paths.companions).map((name) => `a companion's note ${name}`),
    ...list(paths.leaseFiles)
      .filter((name) => !isOver(join(paths.leaseFiles, name)))
      .map((name) => `a lease file ${name}`),
    ...list(paths.trash).map((name) => `something thrown away ${name}`),
  ];
}

/** The file of a lease that expired: it counts for nothing, and the cleanup removes it. */
function isOver(file: string): boolean {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined || stat.mtimeMs < machineMs();
}

function list(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

/** Containers stay until the ensemble removes them; what has an end with its session must have ended. */
export async function leftInZooKeeper(
  client: ZooKeeperClient,
  prefix = "",
  base = "/holdfast",
): Promise<readonly string[]> {
  const left: string[] = [];
  const visit = async (path: string): Promise<void> => {
    for (const child of await childrenOf(client, path)) {
      if (/-?\d{10}$/u.test(child)) left.push(`a node ${path}/${child}`);
      else await visit(`${path}/${child}`);
    }
  };
  const locks = (await childrenOf(client, base)).filter((child) => child.startsWith(prefix));
  for (const lock of locks) await visit(`${base}/${lock}`);
  return left;
}

async function childrenOf(client: ZooKeeperClient, path: string): Promise<readonly string[]> {
  try {
    return (await client.getChildren(path)).children;
  } catch (error) {
    // Removed meanwhile.
    if ((error as { code?: unknown }).code === "NONODE") return [];
    throw error;
  }
}

/** Records of force releases have an end of their own; every other key is a claim's, or an outcome, and must be gone. */
export async function leftInEtcd(client: EtcdClient, prefix = "", base = "/holdfast"): Promise<readonly string[]> {
  const places = prefix === "" ? [""] : ["", "%shown/", "%outcome/"];
  const found = await Promise.all(
    places.map((place) => client.range({ ...below(Buffer.from(`${base}/${place}${prefix}`)), keysOnly: true })),
  );
  const keys = found.flatMap(({ kvs }) => kvs.map(({ key }) => key.toString()));
  return keys.filter((key) => !key.startsWith(`${base}/%forced/`));
}

/** Keys that would stay for ever: every key of ours lives with a lease. */
export async function endlessInEtcd(client: EtcdClient, base = "/holdfast"): Promise<readonly string[]> {
  const { kvs } = await client.range({ ...below(Buffer.from(`${base}/`)), keysOnly: true });
  return kvs.filter(({ lease }) => lease === 0n).map(({ key }) => `a key without an end: ${key.toString()}`);
}
