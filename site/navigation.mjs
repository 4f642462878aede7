/** The pages in the order in which they are read. `npm test` holds this list to docs/: each page is in it, and what it names is there. */

const page = (text, file) => ({ text, file });

export const ENGLISH = [
  {
    text: "Start",
    pages: [
      page("Start", "start.md"),
      page("Concepts", "concepts.md"),
      page("Choose a backend", "choose.md"),
      page("From the articles to the code", "story.md"),
      page("Glossary", "glossary.md"),
    ],
  },
  {
    text: "Recipes",
    pages: [
      page("All recipes", "recipes/README.md"),
      page("Double submit", "recipes/double-submit.md"),
      page("Cron on many machines", "recipes/cron.md"),
      page("A leader", "recipes/leader.md"),
      page("Limit, and rate", "recipes/limit-and-rate.md"),
      page("Migrations at deploy", "recipes/migrations.md"),
      page("Job queues", "recipes/job-queues.md"),
      page("Serverless", "recipes/serverless.md"),
      page("Many tenants", "recipes/tenants.md"),
      page("Payments and guards", "recipes/payments.md"),
    ],
  },
  {
    text: "Backends",
    pages: [
      page("File", "backends/file.md"),
      page("Redis", "backends/redis.md"),
      page("Quorum (Redlock)", "backends/quorum.md"),
      page("Postgres", "backends/postgres.md"),
      page("ZooKeeper", "backends/zookeeper.md"),
      page("etcd", "backends/etcd.md"),
      page("Plain locks of Redis", "backends/redis-plain.md"),
      page("Locks of Redisson", "backends/redisson.md"),
      page("ShedLock's table", "backends/shedlock.md"),
    ],
  },
  {
    text: "Frameworks",
    pages: [
      page("HTTP: Express, Fastify, Hono", "http.md"),
      page("NestJS", "nestjs.md"),
      page("Next.js", "nextjs.md"),
      page("Cron", "cron.md"),
      page("BullMQ", "bullmq.md"),
      page("Web Locks", "web-locks.md"),
      page("Verrou", "verrou.md"),
      page("Bun and Deno", "runtimes.md"),
    ],
  },
  {
    text: "Operate",
    pages: [
      page("Command line", "cli.md"),
      page("Console", "console.md"),
      page("Telemetry", "telemetry.md"),
      page("Events", "events.md"),
      page("Contention", "contention.md"),
      page("Deadlocks", "deadlocks.md"),
      page("Scale", "scale.md"),
      page("Platforms", "platforms.md"),
    ],
  },
  {
    text: "Troubleshooting",
    pages: [
      page("By symptom and by code", "troubleshooting.md"),
      page("ERR_LOCK_TIMEOUT", "errors/ERR_LOCK_TIMEOUT.md"),
      page("ERR_LOCK_LOST", "errors/ERR_LOCK_LOST.md"),
      page("ERR_LOCK_BACKEND", "errors/ERR_LOCK_BACKEND.md"),
      page("ERR_LOCK_CLOSED", "errors/ERR_LOCK_CLOSED.md"),
      page("ERR_LOCK_DEADLOCK", "errors/ERR_LOCK_DEADLOCK.md"),
      page("ERR_LOCK_OUTCOME", "errors/ERR_LOCK_OUTCOME.md"),
      page("ERR_LOCK_ARGUMENT", "errors/ERR_LOCK_ARGUMENT.md"),
      page("ERR_FENCE_REJECTED", "errors/ERR_FENCE_REJECTED.md"),
      page("ERR_IDEMPOTENCY_KEY", "errors/ERR_IDEMPOTENCY_KEY.md"),
      page("ERR_IDEMPOTENCY_KEY_REUSED", "errors/ERR_IDEMPOTENCY_KEY_REUSED.md"),
      page("ERR_USAGE", "errors/ERR_USAGE.md"),
      page("ERR_INTERNAL", "errors/ERR_INTERNAL.md"),
      page("HOLDFAST_CLOSE", "errors/HOLDFAST_CLOSE.md"),
      page("HOLDFAST_CONSOLE", "errors/HOLDFAST_CONSOLE.md"),
      page("HOLDFAST_EVEN_QUORUM", "errors/HOLDFAST_EVEN_QUORUM.md"),
      page("HOLDFAST_MAX_TTL", "errors/HOLDFAST_MAX_TTL.md"),
      page("HOLDFAST_POSTGRES_POOLER", "errors/HOLDFAST_POSTGRES_POOLER.md"),
      page("HOLDFAST_REMOTE_DIRECTORY", "errors/HOLDFAST_REMOTE_DIRECTORY.md"),
      page("HOLDFAST_SEQUENCE", "errors/HOLDFAST_SEQUENCE.md"),
      page("HOLDFAST_TELEMETRY", "errors/HOLDFAST_TELEMETRY.md"),
      page("HOLDFAST_UNREADABLE_LOCK", "errors/HOLDFAST_UNREADABLE_LOCK.md"),
      page("Exit codes", "errors/exit-codes.md"),
      page("SQLSTATE LK001 to LK006", "errors/sqlstate.md"),
    ],
  },
  {
    text: "Safety and proof",
    pages: [
      page("What is promised", "safety.md"),
      page("Fencing", "fencing.md"),
      page("The lab", "lab.md"),
      page("Testing", "testing.md"),
      page("Judges", "judges.md"),
      page("Soak", "soak.md"),
      page("Benchmarks", "benchmarks.md"),
    ],
  },
  {
    text: "Move over",
    pages: [
      page("From redlock", "from-redlock.md"),
      page("From redis-semaphore", "from-redis-semaphore.md"),
      page("From Redisson", "from-redisson.md"),
      page("From ShedLock", "from-shedlock.md"),
      page("From Curator", "from-curator.md"),
      page("From etcdctl and Go", "from-etcdctl.md"),
      page("From consul lock", "from-consul.md"),
      page("From flock", "from-flock.md"),
    ],
  },
];

export const CHINESE = [
  {
    text: "开始",
    pages: [
      page("Holdfast", "zh/README.md"),
      page("快速开始", "zh/start.md"),
      page("从文章到代码", "zh/story.md"),
      page("从 Redisson 或 Curator 迁移", "zh/from-java.md"),
    ],
  },
];

const guide = (...files) =>
  files.map((file) => {
    const found = ENGLISH.flatMap(({ pages }) => pages).find((one) => one.file === file);
    return { text: found?.text ?? file, link: `/${file.replace(/\.md$/, "")}`, file };
  });

/** For each subpath, the pages that explain what the API reference lists. `npm test` holds it to package.json. */
export const GUIDES = {
  holdfast: guide("start.md", "concepts.md"),
  "holdfast/fence": guide("fencing.md"),
  "holdfast/fence/file": guide("fencing.md"),
  "holdfast/fence/http": guide("fencing.md"),
  "holdfast/fence/postgres": guide("fencing.md"),
  "holdfast/fence/redis": guide("fencing.md"),
  "holdfast/fence/etcd": guide("fencing.md"),
  "holdfast/fence/zookeeper": guide("fencing.md"),
  "holdfast/memory": guide("choose.md"),
  "holdfast/redis": guide("backends/redis.md"),
  "holdfast/redis-plain": guide("backends/redis-plain.md"),
  "holdfast/redisson": guide("backends/redisson.md"),
  "holdfast/quorum": guide("backends/quorum.md"),
  "holdfast/testing": guide("testing.md"),
  "holdfast/zookeeper": guide("backends/zookeeper.md"),
  "holdfast/file": guide("backends/file.md"),
  "holdfast/postgres": guide("backends/postgres.md"),
  "holdfast/shedlock": guide("backends/shedlock.md"),
  "holdfast/etcd": guide("backends/etcd.md"),
  "holdfast/express": guide("http.md"),
  "holdfast/fastify": guide("http.md"),
  "holdfast/hono": guide("http.md"),
  "holdfast/cron": guide("cron.md"),
  "holdfast/bullmq": guide("bullmq.md"),
  "holdfast/nestjs": guide("nestjs.md"),
  "holdfast/web-locks": guide("web-locks.md"),
  "holdfast/verrou": guide("verrou.md"),
  "holdfast/redlock": guide("from-redlock.md"),
  "holdfast/redis-semaphore": guide("from-redis-semaphore.md"),
  "holdfast/otel": guide("telemetry.md"),
  "holdfast/prometheus": guide("telemetry.md"),
  "holdfast/console": guide("console.md"),
  "holdfast/log": guide("telemetry.md"),
};

/** Named above, and still to be written: their entries appear on the site when the files do. */
export const TO_COME = [];
