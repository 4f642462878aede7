// One process of the load on the adapters for jobs: it writes down when each run begins and ends.
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { connect } from "../../dist/index.js";
import { lockedProcessor } from "../../dist/adapters/bullmq/index.js";
import { everySlot, OncePerSlot, runCoordinator, withCroner } from "../../dist/adapters/cron/index.js";

const [kind, url, log, queueUrl, aheadMs] = process.argv.slice(2);
const Real = Date;
/** A clock that is early or late, for all that this process uses. */
globalThis.Date = class extends Real {
  constructor(...args) {
    super(...(args.length === 0 ? [Real.now() + Number(aheadMs)] : args));
  }

  static now() {
    return Real.now() + Number(aheadMs);
  }
};
const locks = await connect(url, { ttl: "4s" });
/** Every other second: a process that is late by less still asks for the slot. */
const [PATTERN, EVERY] = ["*/2 * * * * *", "2s"];

/** What was done with another kind is kept, and clocks differ. */
const JOB = `load-${kind}`;

async function work(lock, name, fence, assertHeld, fails = false) {
  // As a careful function does. What is stopped just after this begins with a fence that a guard refuses.
  assertHeld();
  for (const one of [lock, name]) appendFileSync(log, `begin ${one} ${process.pid} ${fence}\n`);
  // Many are slow enough to be hit by a kill.
  await pause(Math.random() < 0.3 ? 400 : Math.random() * 20);
  let how = "held";
  try {
    assertHeld();
  } catch {
    how = "lost";
  }
  if (fails && how === "held") how = "failed";
  for (const one of [lock, name]) appendFileSync(log, `end ${one} ${process.pid} ${fence} ${how}\n`);
  if (how === "failed") throw new Error("as it was asked to");
}

const runOne = ({ slot, fence, assertHeld }) => work("job", `once:${slot.toISOString()}`, fence, assertHeld);
const complain = (error) => {
  if (error?.code !== "ERR_LOCK_LOST") console.error(error);
};

const start = {
  "node-cron": async () => {
    const { schedule } = await import("node-cron");
    const coordinator = runCoordinator(locks, { overlap: "queue", ttl: "4s" });
    const logger = { info() {}, warn() {}, error() {}, debug() {} };
    const task = schedule(PATTERN, (context) => runOne(coordinator.runOf(context)), {
      name: JOB,
      distributed: true,
      runCoordinator: coordinator,
      missedExecutionTolerance: 60_000,
      logger,
    });
    return () => task.destroy();
  },
  croner: async () => {
    const { Cron } = await import("croner");
    const job = new Cron(PATTERN, { catch: complain });
    await withCroner(locks, JOB, job, { missed: { run: "all", most: 100 } }, runOne).catch(complain);
    return () => job.stop();
  },
  nest: async () => {
    await import("reflect-metadata");
    const { Module } = await import("@nestjs/common");
    const { NestFactory } = await import("@nestjs/core");
    const { Cron, ScheduleModule } = await import("@nestjs/schedule");
    class Reports {
      async report(run) {
        await runOne(run);
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Reports.prototype, "report");
    OncePerSlot({ name: JOB, locks: () => locks, overlap: "queue" })(Reports.prototype, "report", descriptor);
    Cron(PATTERN)(Reports.prototype, "report", descriptor);
    Object.defineProperty(Reports.prototype, "report", descriptor);
    class App {}
    Module({ imports: [ScheduleModule.forRoot()], providers: [Reports] })(App);
    const app = await NestFactory.createApplicationContext(App, { logger: false });
    return () => app.close();
  },
  timer: async () => {
    const options = { every: EVERY, missed: { run: "all", most: 100 }, onError: complain };
    const timer = everySlot(locks, JOB, options, runOne);
    return () => timer.stop();
  },
  bullmq: async () => {
    const { Worker } = await import("bullmq");
    const { hostname, port, password } = new URL(queueUrl);
    const key = ({ data }) => data.key;
    const processor = lockedProcessor(locks, { key, delay: "100ms", patience: 5 }, (job, _token, _signal, lease) =>
      work(
        lease.name,
        `once:${job.id}`,
        lease.fence,
        () => lease.assertHeld(),
        job.data.fails && job.attemptsMade === 0,
      ),
    );
    const worker = new Worker("load", processor, {
      connection: { host: hostname, port: Number(port), password },
      concurrency: 4,
      lockDuration: 10_000,
      stalledInterval: 2000,
      maxStalledCount: 1000,
    });
    worker.on("error", () => undefined);
    return () => worker.close();
  },
}[kind];

const end = await start();
async function stop() {
  await end();
  await locks.close();
  process.removeAllListeners("disconnect");
  process.disconnect();
}

// Its process ends when it is done, so the promise is not needed.
process.once("message", () => void stop());
// The load has ended before its time.
process.once("disconnect", () => process.exit());
process.send("ready");
