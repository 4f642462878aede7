// Copied beside an installed scheduler, and run there: two processes' worth of locks, and a slot or a job of each, by import and by require().
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createLocks } from "holdfast";
import { memory, memoryStore } from "holdfast/memory";

const [framework, expected] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const store = memoryStore();
const pods = [1, 2].map(() => createLocks(memory({ store })));

const adapter = `holdfast/${framework === "bullmq" ? "bullmq" : "cron"}`;
if (expected === "refused") {
  const message = new RegExp(`^${framework} \\S+ is installed, but Holdfast supports .*npm install ${framework}@\\d+$`);
  await assert.rejects(
    async () => {
      const { OncePerSlot, runCoordinator, withCroner } = await import(adapter);
      if (framework === "node-cron") runCoordinator(pods[0]);
      if (framework === "croner") await withCroner(pods[0], "a", {}, {}, () => undefined);
      if (framework === "@nestjs/schedule") OncePerSlot({ name: "a", locks: () => pods[0] });
    },
    { code: "ERR_LOCK_ARGUMENT", message },
  );
  console.log("the core loads, the adapter says what to install");
  process.exit();
}

const ours = await import(adapter);
assert.equal(require(adapter)[Object.keys(ours)[0]], ours[Object.keys(ours)[0]]);
const slots = [];
let enough;
const done = new Promise((resolve) => (enough = resolve));
const note = ({ slot, fence, signal }) => {
  assert.equal(typeof fence, "bigint");
  assert.equal(signal.aborted, false);
  slots.push(slot.toISOString());
  if (slots.length === 3) enough();
};

const start = {
  "node-cron": async (locks) => {
    const coordinator = ours.runCoordinator(locks);
    const { schedule } = await import("node-cron");
    const options = { name: "job", distributed: true, runCoordinator: coordinator };
    schedule("* * * * * *", (context) => note(coordinator.runOf(context)), options);
  },
  croner: async (locks) => {
    const { Cron } = await import("croner");
    await ours.withCroner(locks, "job", new Cron("* * * * * *"), {}, note);
  },
  "@nestjs/schedule": async (locks) => {
    await import("reflect-metadata");
    const { Module } = await import("@nestjs/common");
    const { NestFactory } = await import("@nestjs/core");
    const { Cron, ScheduleModule } = await import("@nestjs/schedule");
    class Jobs {
      async job(run) {
        note(run);
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, "job");
    ours.OncePerSlot({ name: "job", locks: () => locks })(Jobs.prototype, "job", descriptor);
    Cron("* * * * * *", { timeZone: "Europe/Berlin" })(Jobs.prototype, "job", descriptor);
    Object.defineProperty(Jobs.prototype, "job", descriptor);
    class App {}
    Module({ imports: [ScheduleModule.forRoot()], providers: [Jobs] })(App);
    await NestFactory.createApplicationContext(App, { logger: ["error"] });
  },
};

if (framework === "bullmq") await processJobs();
else {
  for (const locks of pods) await start[framework](locks);
  await done;
  assert.equal(new Set(slots).size, slots.length);
  assert.ok(slots.every((slot) => slot.endsWith(".000Z")));
}
console.log("ok");
process.exit();

/** Two jobs of one key, of which one finds the lock busy. */
async function processJobs() {
  const { Queue, Worker } = await import("bullmq");
  const { hostname: host, port, password } = new URL(process.env.REDIS_URL);
  const connection = { host, port: Number(port), password };
  const queue = new Queue("smoke", { connection });
  let [inside, handled] = [0, 0];
  const processor = ours.lockedProcessor(pods[0], { key: () => "a", delay: "50ms" }, async (_job, _token, signal) => {
    assert.equal(++inside, 1);
    assert.equal(signal.aborted, false);
    await new Promise((resolve) => setTimeout(resolve, 200));
    inside--;
  });
  const worker = new Worker("smoke", processor, { connection, concurrency: 4 });
  const all = new Promise((resolve, reject) => {
    worker.on("completed", ({ attemptsMade }) => {
      assert.equal(attemptsMade, 1);
      if (++handled === 3) resolve();
    });
    worker.on("failed", (_job, error) => reject(error));
  });
  const added = await queue.addBulk([1, 2, 3].map(() => ({ name: "job", data: {} })));
  await all;
  const started = await Promise.all(added.map(async ({ id }) => (await queue.getJob(id)).attemptsStarted));
  assert.ok(started.some((count) => count > 1));
  await worker.close();
  await queue.close();
}
