// Compiled and run beside an installed NestJS: its decorators, its injection, its terminus and its shutdown, with the module and both decorators.
import "reflect-metadata";
import assert from "node:assert/strict";
import { Body, Controller, Get, HttpCode, Inject, Injectable, Module, Post } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { createLocks, type Locks } from "holdfast";
import { memory } from "holdfast/memory";
import { currentLease, InjectLocks, Lock, LocksHealthIndicator, LocksModule, Once } from "holdfast/nestjs";

let runs = 0;

@Injectable()
class Invoices {
  @Once("invoice:{0.id}", { keep: "1h" })
  async make(order: {
    readonly id: string;
  }): Promise<{ readonly id: string; readonly runs: number; readonly fence: string }> {
    return { id: order.id, runs: (runs += 1), fence: String(currentLease().fence satisfies bigint) };
  }
}

@Controller()
class Shop {
  constructor(
    private readonly invoices: Invoices,
    @InjectLocks("others") private readonly others: Locks,
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(LocksHealthIndicator) private readonly locks: LocksHealthIndicator,
  ) {}

  @Post("pay")
  async pay(@Body() order: { readonly id: string }): Promise<unknown> {
    return await this.invoices.make(order);
  }

  @Post("lock")
  @HttpCode(200)
  @Lock((order: { readonly id: string }) => `order:${order.id}`, { store: "others", wait: 0 })
  async change(@Body() order: { readonly id: string }): Promise<string> {
    return `${await this.others.isHeld(`order:${order.id}`)}`;
  }

  @Get("health")
  async check(): Promise<unknown> {
    return await this.health.check([() => this.locks.isHealthy("locks", { store: "others" })]);
  }
}

/** For the compiler: never called. */
export function typesOf(): unknown {
  class NotPromise {
    // @ts-expect-error What it returns would be a promise.
    @Lock("a")
    sync(): number {
      return 1;
    }

    // @ts-expect-error `keep` is required.
    @Once("a", {})
    async noKeep(): Promise<void> {}

    // @ts-expect-error The key is made of another argument.
    @Lock((id: number) => `a:${id}`)
    async other(id: string): Promise<string> {
      return id;
    }

    @Lock((id: number) => `a:${id}`)
    async more(id: number, text: string): Promise<string> {
      return `${id} ${text}`;
    }
  }
  return NotPromise;
}

let closes = 0;
const others = createLocks(memory());
const close = others.close.bind(others);
others.close = (options) => {
  closes += 1;
  return close(options);
};

@Module({
  imports: [
    LocksModule.forRoot({ url: "memory:" }),
    LocksModule.forRootAsync({ name: "others", useFactory: async () => ({ locks: others }) }),
    TerminusModule,
  ],
  controllers: [Shop],
  providers: [Invoices],
})
class App {}

async function main(): Promise<void> {
  const app = await NestFactory.create(App, { logger: false, abortOnError: false });
  await app.listen(0, "127.0.0.1");
  const url = await app.getUrl();
  const headers = { "content-type": "application/json" };
  const send = async (path: string, id: string | undefined): Promise<readonly [number, string]> => {
    const response = await fetch(`${url}/${path}`, { method: "POST", headers, body: JSON.stringify({ id }) });
    return [response.status, await response.text()];
  };
  const [first, again] = [await send("pay", "7"), await send("pay", "7")];
  assert.deepEqual([first[0], again, runs], [201, first, 1]);
  assert.deepEqual(await send("lock", "7"), [200, "true"]);
  assert.equal((await send("pay", undefined))[0], 500);
  assert.equal((await send("lock", undefined))[0], 500);
  assert.equal(runs, 1);
  const lease = await others.acquire("order:7");
  assert.equal((await send("lock", "7"))[0], 500);
  await lease.release();

  const health = async (): Promise<readonly [number, unknown]> => {
    const response = await fetch(`${url}/health`);
    return [response.status, ((await response.json()) as { readonly details: unknown }).details];
  };
  assert.deepEqual(await health(), [200, { locks: { status: "up" } }]);
  const inspect = others.inspect.bind(others);
  others.inspect = async () => {
    throw Object.assign(new Error("at secret.example"), { code: "ERR_LOCK_BACKEND" });
  };
  const message = "the store of the locks did not answer";
  assert.deepEqual(await health(), [503, { locks: { status: "down", message, code: "ERR_LOCK_BACKEND" } }]);
  others.inspect = inspect;

  await app.close();
  assert.equal(closes, 1);
  await assert.rejects(others.acquire("a"), { code: "ERR_LOCK_CLOSED" });

  // The same store twice is an error in all versions, also in those that take two such modules for one.
  const twice = class {};
  Module({ imports: [LocksModule.forRoot({ url: "memory:" }), LocksModule.forRoot({ url: "memory:" })] })(twice);
  const starting = NestFactory.createApplicationContext(twice, { logger: false, abortOnError: false });
  await assert.rejects(starting, { code: "ERR_LOCK_ARGUMENT" });
  console.log("ok");
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
