/** What people do to the Nest module and its decorators that is not in the examples: with real applications. */
import { HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { afterEach, describe, expect, test } from "vitest";
import { currentLease, Lock, LocksHealthIndicator, LocksModule, Once } from "../../src/adapters/nestjs/index.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { failure, gate } from "../core/scripted.ts";
import { closeAll, context, decorate, inMemory, injectable } from "./nestjs-apps.ts";

afterEach(closeAll);

async function isClosed(locks: Locks): Promise<boolean> {
  return await locks
    .tryRun("probe", () => false)
    .then(
      () => false,
      ({ code }: { readonly code: unknown }) => code === "ERR_LOCK_CLOSED",
    );
}

describe("an application that does not start", () => {
  test.each<[string, object]>([
    ["a factory that rejects", { useFactory: async () => Promise.reject(new Error("no settings")) }],
    ["a factory that throws", { useFactory: () => void fail("no settings") }],
    ["options that are wrong", { useFactory: () => ({ locks: "no settings" }) }],
    ["a store that cannot be opened", { useFactory: () => ({ url: "mysql://127.0.0.1" }) }],
  ])("%s: its error is that of the start, and stores that are open are closed", async (_what, options) => {
    const { locks, module } = inMemory();
    const late = createLocks(memory());
    const [asked, answer] = [gate(), gate()];
    const slow = LocksModule.forRootAsync({
      name: "slow",
      useFactory: async () => {
        asked.open();
        await answer.opened;
        return { locks: late };
      },
    });
    const failing = LocksModule.forRootAsync({ name: "reports", ...options });
    expect(await failure(context({ imports: [module, slow, failing] }))).toMatchObject({
      message: expect.stringMatching(/no settings|Expected `(url|locks)`/),
    });
    expect(await isClosed(locks)).toBe(true);
    await asked.opened;
    answer.open();
    // The start has failed, and waits for nothing any more.
    for (let turn = 0; turn < 1000 && !(await isClosed(late)); turn++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await isClosed(late)).toBe(true);
  });
});

function fail(message: string): never {
  throw new Error(message);
}

describe("methods", () => {
  const SYMBOL = Symbol("change");

  test("overridden ones: with super the same lock is re-entered, and a method without a decorator has none", async () => {
    class Base {
      async change(id: string): Promise<string> {
        return `${currentLease().name} base ${id}`;
      }
      async plain(): Promise<string> {
        return currentLease().name;
      }
    }
    decorate(Base, "change", Lock("order:{0}"));
    decorate(Base, "plain", Lock("plain"));
    class Locked extends Base {
      override async change(id: string): Promise<string> {
        return `${currentLease().name} over ${await super.change(id)}`;
      }
      override async plain(): Promise<string> {
        return "no lease";
      }
    }
    decorate(Locked, "change", Lock("order:{0}"));
    class Elsewhere extends Base {
      override async change(id: string): Promise<string> {
        return `${currentLease().name} over ${await super.change(id)}`;
      }
    }
    decorate(Elsewhere, "change", Lock("other:{0}", { store: "reports" }));
    const [one, other] = [inMemory(), inMemory("reports")];
    const app = await context({
      imports: [one.module, other.module],
      providers: [...injectable(Base, Locked, Elsewhere)],
    });
    expect(await app.get(Locked).change("7")).toBe("order:7 over order:7 base 7");
    expect(await app.get(Locked).plain()).toBe("no lease");
    expect(await app.get(Base).plain()).toBe("plain");
    expect(await app.get(Elsewhere).change("7")).toBe("other:7 over order:7 base 7");
    expect((await one.locks.inspect("order:7")).held).toEqual([]);
  });

  test("with a symbol as their name, and with arguments that are hostile: no other name is made, and the method does not run", async () => {
    class Orders {
      runs = 0;
      async [SYMBOL](order: unknown): Promise<string> {
        this.runs++;
        return `${currentLease().name} ${typeof order}`;
      }
    }
    decorate(Orders, SYMBOL as never, Lock("order:{0.id}:{0.part}"));
    const app = await context({ imports: [inMemory().module], providers: [...injectable(Orders)] });
    const orders = app.get(Orders);
    expect(await orders[SYMBOL]({ id: "7", part: 1 })).toBe("order:7:1 object");
    const hostile: readonly unknown[] = [
      undefined,
      null,
      {},
      { id: "7:8", part: 1 },
      { id: { toString: () => "7" }, part: 1 },
      { id: ["7"], part: 1 },
      { id: "", part: 1 },
      { id: Number.NaN, part: 1 },
      { id: Symbol("7"), part: 1 },
      { id: () => "7", part: 1 },
      { id: "7", part: "x".repeat(100_000) },
      { id: "7", part: "\u{d800}" },
      {
        get id(): never {
          return fail("a getter that throws");
        },
        part: 1,
      },
      new Proxy({}, { get: () => fail("a proxy that throws") }),
    ];
    for (const order of hostile) expect(await failure(orders[SYMBOL](order))).toBeInstanceOf(Error);
    expect(orders.runs).toBe(1);
  });

  test("an async generator, a static method and a property are refused", async () => {
    class Orders {
      async *all(): AsyncGenerator<number> {
        yield 1;
      }
      static async once(): Promise<void> {}
    }
    decorate(Orders, "all", Lock("all"));
    const app = await context({ imports: [inMemory().module], providers: [...injectable(Orders)] });
    const all = app.get(Orders).all() as unknown as Promise<unknown>;
    expect(await failure(all)).toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    const of = Object.getOwnPropertyDescriptor(Orders, "once")!;
    expect(() => (Lock("a") as unknown as (...args: unknown[]) => void)(Orders, "once", of)).toThrow("static");
    expect(() => (Lock("a") as unknown as (...args: unknown[]) => void)(Orders.prototype, "field", undefined)).toThrow(
      "method",
    );
  });
});

test("the end comes while methods run, wait and replay: what runs gets its signal, what waits rejects, what was kept stays", async () => {
  class Orders {
    runs = 0;
    readonly [place: string]: unknown;
    async change(began: () => void): Promise<string> {
      began();
      const { signal } = currentLease();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "ended";
    }
    async make(): Promise<number> {
      return ++this.runs;
    }
  }
  decorate(Orders, "change", Lock("order", { wait: "10m" }));
  decorate(Orders, "make", Once("make", { keep: "1h" }));
  const store = memoryStore();
  const module = (): ReturnType<typeof LocksModule.forRoot> =>
    LocksModule.forRoot({ locks: createLocks(memory({ store })), grace: "10m" });
  const app = await context({ imports: [module()], providers: [...injectable(Orders)] });
  const orders = app.get(Orders);
  const began = gate();
  expect([await orders.make(), await orders.make()]).toEqual([1, 1]);
  const running = orders.change(() => began.open());
  await began.opened;
  const waiting = failure(orders.change(() => expect.unreachable()));
  const closed = app.close();
  expect(await waiting).toMatchObject({ code: "ERR_LOCK_CLOSED" });
  expect(await running).toBe("ended");
  await closed;
  expect(await failure(orders.make())).toMatchObject({ code: "ERR_LOCK_CLOSED" });
  const next = await context({ imports: [module()], providers: [...injectable(Orders)] });
  expect(await next.get(Orders).make()).toBe(1);
});

test("one module in two places is one store, opened once", async () => {
  const { module } = inMemory();
  class Orders {
    async change(): Promise<string> {
      return currentLease().name;
    }
  }
  decorate(Orders, "change", Lock("order"));
  const { Module } = await import("@nestjs/common");
  const feature = class {};
  Module({ imports: [module], providers: [...injectable(Orders)], exports: [Orders] })(feature);
  const app = await context({ imports: [module, feature] });
  expect(await app.get(Orders, { strict: false }).change()).toBe("order");
});

test("a store that hangs is down after the time that was said, and the endpoint answers", async () => {
  const hanging = Object.assign(memory(), { inspect: () => new Promise<never>(() => undefined) });
  const locks = createLocks(hanging);
  const app = await context({ imports: [LocksModule.forRoot({ locks }), TerminusModule] });
  const [health, indicator] = [app.get(HealthCheckService), app.get(LocksHealthIndicator)];
  const error = await failure(health.check([() => indicator.isHealthy("locks", { timeout: 100 })]));
  expect(error).toMatchObject({ response: { details: { locks: { status: "down", code: "ERR_LOCK_BACKEND" } } } });
});
