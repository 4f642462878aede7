/**
 * Every store, guard and drop-in that the code knows has its minimal rights in SECURITY.md, and a test that they suffice and reach no
 * further; or a reason why it needs none. Taken from the code, so that nothing new can land without both.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openBackend } from "../../src/connect.ts";
import { ROOT } from "../dist.ts";

interface Zoned {
  /** The section of SECURITY.md, and what must stand in it. */
  readonly section: string;
  readonly says: RegExp;
  readonly test: string;
  /** What the test file does there: how it opens the store, that rights suffice, and that they reach no further. */
  readonly opens: RegExp;
  readonly suffices: RegExp;
  readonly forbids: RegExp;
}

const redis = {
  section: "Rights in Redis",
  says: /```redis-acl data\nACL SETUSER/u,
  test: "test/security/redis.test.ts",
  suffices: /"the zone's own user has all the rights that locks need/u,
  forbids: /"another zone's user can touch nothing/u,
} as const;

const clean = {
  section: "Rights in Redis",
  says: /need what the store of their `locks` needs/u,
  test: "test/security/drop-ins.test.ts",
  suffices: /"with locks, holdfast\/redlock, redis-semaphore, verrou and web-locks need what the store needs"/u,
  forbids: /webLocks\(strange\)\.request\(.*rejects/u,
} as const;

const ZONED: Readonly<Record<string, Zoned>> = {
  "redis:": { ...redis, opens: /`redis:\/\/\$\{login/u },
  "redis+sentinel:": {
    ...redis,
    says: /```redis-acl sentinel\nACL SETUSER/u,
    opens: /`redis\+sentinel:\/\/\$\{login/u,
  },
  "redis+cluster:": { ...redis, says: /```redis-acl cluster\nACL SETUSER/u, opens: /`redis\+cluster:\/\/\$\{login/u },
  "redlock:": { ...redis, says: /every member of a quorum/u, opens: /`redlock:\/\/\$\{login/u },
  "zk:": {
    section: "Rights in ZooKeeper",
    says: /create \/billing "" auth::cdrwa/u,
    test: "test/security/zookeeper.test.ts",
    opens: /`zk:\/\/\$\{user\}/u,
    suffices: /"the zone's own user has all the rights that locks need/u,
    forbids: /"one zone cannot touch another/u,
  },
  "postgres:": {
    section: "Rights in Postgres",
    says: /```sql locks\ngrant usage/u,
    test: "test/security/postgres.test.ts",
    opens: /`postgres:\/\/\$\{user\}/u,
    suffices: /"the zone's own role has all the rights that locks need/u,
    forbids: /and another zone's role can touch nothing/u,
  },
  "etcd:": {
    section: "Rights in etcd",
    says: /etcdctl role grant-permission billing --prefix=true readwrite \/billing\//u,
    test: "test/security/etcd.test.ts",
    opens: /`etcd:\/\/\$\{user\}/u,
    suffices: /"the zone's own user has all the rights that locks need/u,
    forbids: /"one zone cannot touch another/u,
  },
  "guard in etcd": {
    section: "Rights in etcd",
    says: /`marks: "\/billing\/fences"`/u,
    test: "test/security/etcd.test.ts",
    opens: /writeFenced\(/u,
    suffices: /"a guard's marks are the zone's own/u,
    forbids: /"a guard's marks are the zone's own, and no other zone's/u,
  },
  "drop-in redlock": {
    section: "Rights in Redis",
    says: /```redis-acl redlock\nACL SETUSER/u,
    test: "test/security/drop-ins.test.ts",
    opens: /new Redlock\(/u,
    suffices: /"holdfast\/redlock: the zone's own user has all the rights that it needs/u,
    forbids: /"neither by hand"/u,
  },
  "drop-in redis-semaphore": {
    section: "Rights in Redis",
    says: /```redis-acl redis-semaphore\nACL SETUSER/u,
    test: "test/security/drop-ins.test.ts",
    opens: /new Mutex\(/u,
    suffices: /"holdfast\/redis-semaphore: the zone's own user has all the rights that it needs/u,
    forbids: /"neither by hand"/u,
  },
  "drop-in verrou": { ...clean, opens: /holdfastStore\(/u },
  "drop-in web-locks": { ...clean, opens: /webLocks\(/u },
  "file:": {
    section: "Files",
    says: /only one Unix user can write/u,
    test: "test/backends/file/directory-checks.test.ts",
    opens: /\.open\(|file\(/u,
    suffices: /test\(/u,
    forbids: /"S172: every level is checked/u,
  },
  "guard in redis": {
    section: "Rights in Redis",
    says: /`redisMarks\(client, \{ prefix: "billing" \}\)`.*`\+get \+set`/su,
    test: "test/security/redis.test.ts",
    opens: /redisMarks\(client, \{ prefix: "billing" \}\)/u,
    suffices: /"guards keep to their zone/u,
    forbids: /redisMarks\(client, \{ prefix: "search" \}\).*rejects/u,
  },
  "guard in zookeeper": {
    section: "Rights in ZooKeeper",
    says: /`marks: "\/billing\/fences"`/u,
    test: "test/security/zookeeper.test.ts",
    opens: /writeFenced\(/u,
    suffices: /"a guard's marks are the zone's own/u,
    forbids: /"a guard's marks are the zone's own, and no other zone's/u,
  },
  "guard in postgres": {
    section: "Rights in Postgres",
    says: /```sql\ngrant usage/u,
    test: "test/security/postgres.test.ts",
    opens: /withFence\(writer/u,
    suffices: /"the grants suffice/u,
    forbids: /"and give no more/u,
  },
};

/** The same rights as another, or none at all, and why. */
const EXEMPT: Readonly<Record<string, string>> = {
  "memory:": "is the process's own memory",
  "rediss:": "is redis: with TLS, which changes no right",
  "rediss+sentinel:": "is redis+sentinel: with TLS, which changes no right",
  "redis-sentinel:": "is another name of redis+sentinel:",
  "rediss+cluster:": "is redis+cluster: with TLS, which changes no right",
  "redis+unix:": "is redis: through a socket, with the same users",
  "zookeeper:": "is another name of zk:",
  "postgresql:": "is another name of postgres:",
  "postgres+shedlock:":
    "is a table of the user's own, with the rights that ShedLock needs there; test/backends/shedlock shows that they suffice",
  "etcds:": "is etcd: with TLS, which changes no right",
  "guard in file": "keeps its mark beside the file that it guards, with the Unix rights of the user who writes that",
  "guard in http": "keeps its marks in one of the others",
};

/** As the library itself tells them. */
async function schemes(): Promise<readonly string[]> {
  const { message } = (await openBackend("nothing://x").catch((error: unknown) => error)) as Error;
  return [...message.matchAll(/([a-z+-]+:)(?=[,\s])/gu)]
    .map(([, scheme]) => scheme as string)
    .filter((s) => s !== "nothing:");
}

/** Each guard is a folder that the package exports. */
function guards(): readonly string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { exports: object };
  const folders = readdirSync(join(ROOT, "src/fence")).filter((name) =>
    existsSync(join(ROOT, "src/fence", name, "index.ts")),
  );
  expect(folders.filter((name) => !Object.hasOwn(exports, `./fence/${name}`))).toEqual([]);
  return folders.map((name) => `guard in ${name}`);
}

/** Each drop-in, too. */
function dropIns(): readonly string[] {
  const folders = readdirSync(join(ROOT, "src/drop-ins"));
  return folders
    .filter((name) => existsSync(join(ROOT, "src/drop-ins", name, "index.ts")))
    .map((name) => `drop-in ${name}`);
}

test("every store, guard and drop-in of the code is here, and nothing else is", async () => {
  const known = [...(await schemes()), ...guards(), ...dropIns()];
  expect(known.length).toBeGreaterThan(10);
  expect(known.toSorted()).toEqual([...Object.keys(ZONED), ...Object.keys(EXEMPT)].toSorted());
});

const security = readFileSync(join(ROOT, "SECURITY.md"), "utf8");

test.each(Object.entries(ZONED))("%s has its rights in SECURITY.md, and a test of them", (_what, zoned) => {
  const section = security.split(`## ${zoned.section}\n`)[1]?.split("\n## ")[0] ?? "";
  expect(section).toMatch(zoned.says);
  const text = readFileSync(join(ROOT, zoned.test), "utf8");
  for (const part of [zoned.opens, zoned.suffices, zoned.forbids]) expect(text).toMatch(part);
});
