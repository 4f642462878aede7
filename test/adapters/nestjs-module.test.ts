/** LocksModule: how stores are opened, how terminus asks for them, and how they are closed when the application ends. */
import { Controller, Get, Injectable, type ModuleMetadata, type Type } from "@nestjs/common";
import { HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  currentLease,
  getLocksToken,
  Lock,
  LocksHealthIndicator,
  LocksModule,
} from "../../src/adapters/nestjs/index.ts";
import { connect } from "../../src/connect.ts";
import type { Lease, Locks } from "../../src/core/api.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { gate } from "../core/scripted.ts";
import {
  closeAll,
  context,
  decorate,
  decorateParameter,
  inMemory,
  injectable,
  moduleWith,
  start,
} from "./nestjs-apps.ts";

afterEach(async () => {
  vi.unstubAllEnvs();
  await closeAll();
});

class Config {
  readonly url: string = "memory:";
  async createLocksOptions(): Promise<{ readonly url: string; readonly defaults: { readonly holder: string } }> {
    return { url: this.url, defaults: { holder: "config" } };
  }
}
injectable(Config);

const holderOf = async (locks: Locks): Promise<string | undefined> =>
  await locks.run("a", async () => (await locks.inspect("a")).held[0]?.holder);

describe("opens", () => {
  const config = moduleWith({ providers: [Config], exports: [Config] });
  const useFactory = async ({ url }: Config): Promise<object> => ({ url, defaults: { holder: "config" } });
  test.each<[string, () => NonNullable<ModuleMetadata["imports"]>[number]]>([
    ["forRoot()", () => LocksModule.forRoot({ url: "memory:", defaults: { holder: "config" } })],
    ["useFactory", () => LocksModule.forRootAsync({ imports: [config], inject: [Config], useFactory })],
    ["useClass", () => LocksModule.forRootAsync({ useClass: Config })],
    ["useExisting", () => LocksModule.forRootAsync({ imports: [config], useExisting: Config })],
  ])("by %s", async (_way, make) => {
    const app = await context({ imports: [make()] });
    expect(await holderOf(app.get(getLocksToken(), { strict: false }))).toBe("config");
  });

  test("what HOLDFAST_URL says, where no URL is given", async () => {
    vi.stubEnv("HOLDFAST_URL", "memory:");
    const app = await context({ imports: [LocksModule.forRoot({ defaults: { holder: "by the environment" } })] });
    expect(await holderOf(app.get(getLocksToken(), { strict: false }))).toBe("by the environment");
  });

  test("a store that is not global only for those that import it", async () => {
    class Orders {
      async change(): Promise<string> {
        return currentLease().name;
      }
    }
    decorate(Orders, "change", Lock("order"));
    injectable(Orders);
    const locks = LocksModule.forRoot({ url: "memory:", isGlobal: false });
    const inside = moduleWith({ imports: [locks], providers: [Orders] });
    const app = await context({ imports: [inside] });
    expect(await app.get(Orders, { strict: false }).change()).toBe("order");
    const outside = moduleWith({ providers: [Orders] });
    await expect(context({ imports: [locks, outside] })).rejects.toThrow("HoldfastLocks");
    await expect(context({ imports: [outside] })).rejects.toThrow("HoldfastLocks");
  });

  test.each<[string, () => unknown, RegExp]>([
    [
      "a URL that is not set",
      () => context({ imports: [LocksModule.forRoot({ url: undefined as never })] }),
      /undefined/,
    ],
    [
      "a URL that a factory does not find",
      () =>
        context({
          imports: [LocksModule.forRootAsync({ useFactory: () => ({ url: process.env["NO_SUCH"] as string }) })],
        }),
      /undefined/,
    ],
    ["another option", () => context({ imports: [LocksModule.forRoot({ uri: "memory:" } as never)] }), /`uri`/],
    [
      "locks and a URL",
      () => context({ imports: [LocksModule.forRoot({ locks: inMemory().locks, url: "memory:" })] }),
      /not both/,
    ],
    [
      "locks that are none",
      () => context({ imports: [LocksModule.forRoot({ locks: {} as never })] }),
      /as connect\(\)/,
    ],
    ["a grace that is none", () => context({ imports: [LocksModule.forRoot({ url: "memory:", grace: -1 })] }), /grace/],
    ["no factory", () => LocksModule.forRootAsync({}), /one of/],
    ["two factories", () => LocksModule.forRootAsync({ useClass: Config, useExisting: Config }), /one of/],
    ["a name that is empty", () => LocksModule.forRoot({ name: "" }), /not empty/],
    [
      "the same name twice",
      () => context({ imports: [inMemory().module, inMemory().module] }),
      /once for the store "default"/,
    ],
    [
      "the same name twice, by factories",
      () => {
        const by = (url: string): object => LocksModule.forRootAsync({ name: "x", useFactory: () => ({ url }) });
        return context({ imports: [by("memory:") as Type, by("memory:") as Type] });
      },
      /once for the store "x"/,
    ],
  ])("%s is an error when the application starts", async (_what, make, message) => {
    await expect((async () => await make())()).rejects.toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
    await expect((async () => await make())()).rejects.toThrow(message);
  });
});

describe("closes", () => {
  const counted = (): { readonly locks: Locks; readonly graces: unknown[] } => {
    const { locks } = inMemory();
    const graces: unknown[] = [];
    const close = locks.close.bind(locks);
    locks.close = (options) => {
      graces.push(options?.grace);
      return close(options);
    };
    return { locks, graces };
  };

  test("each store once, all at the same time, when requests are answered; a method that runs is asked to end", async () => {
    const [began, answered] = [gate(), gate()];
    const [one, two] = [counted(), counted()];
    const order: string[] = [];
    class Work {
      async request(): Promise<string> {
        began.open();
        await answered.opened;
        order.push(`request ends, aborted: ${currentLease().signal.aborted}`);
        return "done";
      }
      async job(): Promise<void> {
        const { signal } = currentLease();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        order.push(`job ends, held: ${currentLease().remaining() > 0}`);
      }
    }
    Controller()(Work);
    decorate(Work, "request", Get(), Lock("request"));
    decorate(Work, "job", Lock("job", { store: "jobs" }));
    const { app, url } = await start({
      imports: [
        LocksModule.forRoot({ locks: one.locks, grace: "30s" }),
        LocksModule.forRoot({ name: "jobs", locks: two.locks, grace: "20s" }),
      ],
      controllers: [Work],
    });
    const job = app.get(Work).job();
    const response = fetch(url);
    await began.opened;
    const closing = app.close();
    const server = app.getHttpServer() as { readonly listening: boolean };
    await eventually("the server takes no more requests", () => !server.listening || undefined);
    answered.open();
    expect(await (await response).text()).toBe("done");
    await closing;
    await job;
    expect(order).toEqual(["request ends, aborted: false", "job ends, held: true"]);
    await app.close();
    expect([one.graces, two.graces]).toEqual([[30_000], [20_000]]);
    await expect(one.locks.acquire("a")).rejects.toMatchObject({ code: "ERR_LOCK_CLOSED" });
  });

  test("a method that does not end in time keeps its lease, and the rest of the application is closed all the same", async () => {
    const { locks, graces } = counted();
    const end = gate();
    let others = 0;
    let lease: Lease | undefined;
    class Work {
      async job(): Promise<void> {
        lease = currentLease();
        await end.opened;
      }
    }
    class Other {
      onApplicationShutdown(): void {
        others += 1;
      }
    }
    decorate(Work, "job", Lock("job"));
    const app = await context({
      imports: [LocksModule.forRoot({ locks, grace: 1 })],
      providers: [...injectable(Work, Other)],
    });
    const job = app.get(Work).job();
    await app.close();
    expect([others, graces]).toEqual([1, [1]]);
    expect(lease?.remaining()).toBeGreaterThan(0);
    end.open();
    await job;
  });
});

describe("the health indicator", () => {
  class Health {
    readonly #health: HealthCheckService;
    readonly #locks: LocksHealthIndicator;
    constructor(health: HealthCheckService, locks: LocksHealthIndicator) {
      this.#health = health;
      this.#locks = locks;
    }
    async check(): Promise<unknown> {
      return await this.#health.check([() => this.#locks.isHealthy("locks", { timeout: "2s" })]);
    }
  }
  Controller("health")(Health);
  decorate(Health as Type, "check", Get());
  for (const [at, type] of [HealthCheckService, LocksHealthIndicator].entries()) {
    decorateParameter(Health as Type, undefined, at, (target: object, _property: undefined, index: number) =>
      injectParameter(target, index, type),
    );
  }

  const asked = async (locks: Locks): Promise<readonly [number, { readonly details: unknown }, string]> => {
    const { url } = await start({
      imports: [LocksModule.forRoot({ locks, grace: 0 }), TerminusModule.forRoot({ logger: false })],
      controllers: [Health as Type],
    });
    const response = await fetch(`${url}/health`);
    const text = await response.text();
    return [response.status, JSON.parse(text) as { readonly details: unknown }, text];
  };

  test("says that a store is there; that it is gone, without saying where it was; and that it is in quarantine", async () => {
    const redis = await startRedis();
    try {
      const up = await connect(redis.url);
      expect((await asked(up)).slice(0, 2)).toMatchObject([200, { details: { locks: { status: "up" } } }]);
      const down = await connect(redis.url);
      await redis.stop();
      const [status, { details }, text] = await asked(down);
      expect([status, details]).toEqual([
        503,
        { locks: { status: "down", message: "the store of the locks did not answer", code: "ERR_LOCK_BACKEND" } },
      ]);
      expect(text).not.toContain(String(redis.port));
    } finally {
      await redis.stop();
    }
    const { locks } = inMemory();
    locks.inspect = async (name) => ({
      name,
      held: [],
      pending: [],
      forced: [],
      quarantineMs: 700,
      toJSON: () => ({}),
    });
    expect((await asked(locks)).slice(0, 2)).toMatchObject([
      503,
      { details: { locks: { status: "down", quarantineMs: 700 } } },
    ]);
  });

  test("a store that does not exist is a mistake, and not down", async () => {
    const app = await context({ imports: [inMemory().module] });
    const indicator = app.get(LocksHealthIndicator, { strict: false });
    expect(await indicator.isHealthy("locks")).toEqual({ locks: { status: "up" } });
    await expect(indicator.isHealthy("locks", { store: "x" })).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    await expect(indicator.isHealthy("locks", { timeout: "x" as never })).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
    });
  });
});

function injectParameter(target: object, index: number, type: Type): void {
  Injectable()(target as Type);
  const reflect = Reflect as unknown as {
    getMetadata(key: string, of: object): Type[] | undefined;
    defineMetadata(key: string, value: Type[], of: object): void;
  };
  const types = [...(reflect.getMetadata("design:paramtypes", target) ?? [])];
  types[index] = type;
  reflect.defineMetadata("design:paramtypes", types, target);
}
