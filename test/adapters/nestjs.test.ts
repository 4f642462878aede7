/** The decorators in real applications: one call at a time, work that is done once, and everything else of Nest stays as it was. */
import {
  Controller,
  type ExecutionContext,
  Get,
  Inject,
  Param,
  Post,
  Scope,
  SetMetadata,
  type Type,
  UseGuards,
} from "@nestjs/common";
import { applyDecorators, Injectable } from "@nestjs/common";
import { ModuleRef, Reflector } from "@nestjs/core";
import { Cron, ScheduleModule } from "@nestjs/schedule";
import { inspect } from "node:util";
import { of } from "rxjs";
import { afterEach, describe, expect, test } from "vitest";
import { attachLocks, currentLease, InjectLocks, Lock, Once } from "../../src/adapters/nestjs/index.ts";
import type { Lease, Locks } from "../../src/core/api.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { gate } from "../core/scripted.ts";
import { closeAll, context, decorate, decorateParameter, inMemory, injectable, start } from "./nestjs-apps.ts";

afterEach(closeAll);

interface Order {
  readonly id?: string | number;
}

describe("@Lock()", () => {
  test("calls with one name take turns, whatever calls them; another name is free; the lease is there in the method", async () => {
    const [first, began] = [gate(), gate()];
    const order: string[] = [];
    class Orders {
      async change({ id }: Order, who: string): Promise<string> {
        const { name, fence, signal } = currentLease();
        order.push(`${who} begins`);
        if (who === "a") {
          began.open();
          await first.opened;
        }
        order.push(`${who} ends`);
        return `${name} ${id} ${typeof fence} ${signal.aborted}`;
      }
    }
    decorate(Orders, "change", Lock("order:{0.id}", { wait: "1m" }));
    const { locks, module } = inMemory();
    const app = await context({ imports: [module], providers: [...injectable(Orders)] });
    const orders = app.get(Orders);
    const a = orders.change({ id: 7 }, "a");
    await began.opened;
    const b = orders.change({ id: "7" }, "b");
    expect(await orders.change({ id: 8 }, "c")).toBe("order:8 8 bigint false");
    await eventually("b waits", async () => (await locks.query()).pending.length === 1 || undefined);
    expect(order).toEqual(["a begins", "c begins", "c ends"]);
    first.open();
    expect([await a, await b]).toEqual(["order:7 7 bigint false", "order:7 7 bigint false"]);
    expect(order.slice(3)).toEqual(["a ends", "b begins", "b ends"]);
    expect((await locks.query()).held).toEqual([]);
  });

  test("a missing value is an error, and no lock is taken: the method does not run", async () => {
    let runs = 0;
    class Orders {
      async change(_order: Order): Promise<void> {
        runs += 1;
      }
    }
    decorate(Orders, "change", Lock("order:{0.id}"));
    const { locks, module } = inMemory();
    const app = await context({ imports: [module], providers: [...injectable(Orders)] });
    const asked: string[] = [];
    const run = locks.run.bind(locks);
    locks.run = ((name: string, ...rest: never[]) => {
      asked.push(name);
      return (run as (...args: unknown[]) => unknown)(name, ...rest);
    }) as Locks["run"];
    await expect(app.get(Orders).change({})).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining('{0.id} in @Lock("order:{0.id}") on change()'),
    });
    expect(asked).toEqual([]);
    await app.get(Orders).change({ id: 1 });
    expect([asked, runs]).toEqual([["order:1"], 1]);
  });

  test("a busy lock, a failure of the method and a loss reach the caller as from run()", async () => {
    class Orders {
      async fail(): Promise<void> {
        throw new RangeError("no such order");
      }
      async lose(): Promise<string> {
        const { name, fence } = currentLease();
        await locks.forceRelease(name, { fence, reason: "test" });
        return "done";
      }
    }
    decorate(Orders, "fail", Lock("order", { wait: 0 }));
    decorate(Orders, "lose", Lock("order", { wait: 0 }));
    const { locks, module } = inMemory();
    const app = await context({ imports: [module], providers: [...injectable(Orders)] });
    const orders = app.get(Orders);
    await expect(orders.fail()).rejects.toThrow(new RangeError("no such order"));
    await expect(orders.lose()).rejects.toMatchObject({ code: "ERR_LOCK_LOST", result: "done" });
    const lease = await locks.acquire("order");
    await expect(orders.fail()).rejects.toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
    await lease.release();
    expect(() => currentLease()).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
  });

  test("inside a method with the same lock it re-enters; the innermost lease is the current one", async () => {
    class Orders {
      async outer(): Promise<readonly bigint[]> {
        const { fence } = currentLease();
        return [fence, await this.inner(), currentLease().fence];
      }
      async inner(): Promise<bigint> {
        return currentLease().fence;
      }
    }
    decorate(Orders, "outer", Lock("order"));
    decorate(Orders, "inner", Lock("order"));
    const app = await context({ imports: [inMemory().module], providers: [...injectable(Orders)] });
    const [before, inside, after] = await app.get(Orders).outer();
    expect([inside, after]).toEqual([before, before]);
  });

  test("code that outlives the method has a lease that is over", async () => {
    let late: Promise<Lease> | undefined;
    const end = gate();
    class Orders {
      async change(): Promise<void> {
        late = end.opened.then(() => currentLease());
      }
    }
    decorate(Orders, "change", Lock("order"));
    const app = await context({ imports: [inMemory().module], providers: [...injectable(Orders)] });
    await app.get(Orders).change();
    end.open();
    const lease = (await late) as Lease;
    expect(lease.remaining()).toBe(0);
    expect(() => lease.assertHeld()).toThrow();
  });

  test("what would run after the release is refused: an Observable, and a generator", async () => {
    class Orders {
      async watch(): Promise<unknown> {
        return of(1, 2);
      }
      read(): unknown {
        return (async function* () {
          yield 1;
        })();
      }
    }
    decorate(Orders, "watch", Lock("order"));
    decorate(Orders, "read", Lock("order"));
    const app = await context({ imports: [inMemory().module], providers: [...injectable(Orders)] });
    await expect(app.get(Orders).watch()).rejects.toThrow("got an Observable, whose work would run without the lock");
    await expect(app.get(Orders).read()).rejects.toThrow("got a generator");
  });

  test("mistakes are errors where the class is declared", () => {
    class Orders {
      async change(): Promise<void> {}
    }
    const wrong = (decorator: () => unknown): void =>
      expect(() => decorate(Orders, "change", decorator())).toThrow(
        expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }),
      );
    wrong(() => Lock("order:{id}"));
    wrong(() => Lock("order", { ttl: "1 fortnight" as never }));
    wrong(() => Lock("order", { wait: "-1s" as never }));
    wrong(() => Lock("order", { timeout: "1s" } as never));
    wrong(() => Lock("order", { keep: "1h" } as never));
    wrong(() => Lock("order", { signal: new AbortController().signal } as never));
    wrong(() => Lock("order", { store: "" }));
    wrong(() => Lock("order", null as never));
    wrong(() => Once("order", undefined as never));
    wrong(() => Once("order", {} as never));
    wrong(() => Once("order", { keep: "1ms" }));
    wrong(() => Once("order", { keep: "1h", keepFailure: "x" as never }));
    wrong(() => Once("order", { keep: "1h", mode: "shared" } as never));
    const onStatic = Lock("order") as (...args: unknown[]) => void;
    expect(() => onStatic(Orders, "change", { value: async () => {} })).toThrow("a method that is not static");
    expect(() => onStatic(Orders.prototype, "change", { get: () => 1 })).toThrow("a method that is not static");
    expect(() => onStatic(Orders.prototype, "change", undefined)).toThrow("a method that is not static");
  });
});

test("@Once(): of all calls one runs, and all get what the codec makes of its value; a failure is not kept", async () => {
  let runs = 0;
  class Invoices {
    async make(order: Order): Promise<{ readonly id: unknown; readonly at: Date; readonly fence: string }> {
      runs += 1;
      if (order.id === "bad") throw new RangeError("no such order");
      return { id: order.id, at: new Date(0), fence: String(currentLease().fence) };
    }
    async note(_text: string): Promise<void> {
      runs += 1;
    }
    async count(): Promise<bigint> {
      runs += 1;
      return 7n;
    }
  }
  decorate(Invoices, "make", Once("invoice:{0.id}", { keep: "1h" }));
  decorate(Invoices, "note", Once("note:{0}", { keep: "1h" }));
  decorate(Invoices, "count", Once("count", { keep: "1h", codec: { encode: String, decode: BigInt } }));
  const app = await context({ imports: [inMemory().module], providers: [...injectable(Invoices)] });
  const invoices = app.get(Invoices);
  const all = await Promise.all(Array.from({ length: 5 }, () => invoices.make({ id: 7 })));
  expect(runs).toBe(1);
  expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(1);
  expect(all[0]).toMatchObject({ id: 7, at: "1970-01-01T00:00:00.000Z", fence: expect.stringMatching(/^\d+$/) });
  await expect(invoices.make({ id: "bad" })).rejects.toThrow("no such order");
  await expect(invoices.make({ id: "bad" })).rejects.toThrow("no such order");
  expect(runs).toBe(3);
  expect([await invoices.note("a"), await invoices.note("a"), runs]).toEqual([undefined, undefined, 4]);
  expect([await invoices.count(), await invoices.count(), runs]).toEqual([7n, 7n, 5]);
});

describe("in Nest", () => {
  test("routes, guards and own metadata stay, above and below the decorator, and in applyDecorators(); guards come before the lock", async () => {
    const seen: string[] = [];
    class Guard {
      canActivate(where: ExecutionContext): boolean {
        const mark = new Reflector().get<string>("mark", where.getHandler());
        seen.push(`${mark} ${where.getHandler().name} ${where.getHandler().length}`);
        return (
          where.switchToHttp().getRequest<{ readonly query: Readonly<Record<string, unknown>> }>().query["no"] ===
          undefined
        );
      }
    }
    class Orders {
      async above(id: string): Promise<string> {
        return `${currentLease().name} ${id}`;
      }
      async below(id: string): Promise<string> {
        return `${currentLease().name} ${id}`;
      }
      async composed(id: string): Promise<string> {
        return `${currentLease().name} ${id}`;
      }
    }
    Controller("orders")(Orders);
    decorate(Orders, "above", Lock("order:{0}"), Get("above/:id"), UseGuards(Guard), SetMetadata("mark", "a"));
    decorate(Orders, "below", Get("below/:id"), UseGuards(Guard), SetMetadata("mark", "b"), Lock("order:{0}"));
    const lock = Lock("order:{0}") as MethodDecorator;
    decorate(Orders, "composed", applyDecorators(Post(":id"), lock, UseGuards(Guard), SetMetadata("mark", "c")));
    for (const method of ["above", "below", "composed"]) decorateParameter(Orders, method, 0, Param("id"));
    const { locks, module } = inMemory();
    const { url } = await start({ imports: [module], controllers: [Orders], providers: [...injectable(Guard)] });
    const text = async (path: string, method = "GET"): Promise<string> =>
      await (await fetch(`${url}/orders/${path}`, { method })).text();
    expect([await text("above/1"), await text("below/2"), await text("3", "POST")]).toEqual([
      "order:1 1",
      "order:2 2",
      "order:3 3",
    ]);
    expect(seen).toEqual(["a above 1", "b below 1", "c composed 1"]);
    // Refused by the guard, though its lock is held: it did not wait for it.
    const lease = await locks.acquire("order:1");
    expect((await fetch(`${url}/orders/above/1?no=1`)).status).toBe(403);
    await lease.release();
  });

  test("a cron keeps its schedule, above and below the decorator, and runs under the lock", async () => {
    const ran = new Set<string>();
    class Jobs {
      async above(): Promise<void> {
        ran.add(`above ${currentLease().name}`);
      }
      async below(): Promise<void> {
        ran.add(`below ${currentLease().name}`);
      }
    }
    decorate(Jobs, "above", Lock("above"), Cron("* * * * * *"));
    decorate(Jobs, "below", Cron("* * * * * *"), Lock("below"));
    await start({ imports: [inMemory().module, ScheduleModule.forRoot()], providers: [...injectable(Jobs)] });
    await eventually("both have run", () => ran.size === 2 || undefined);
    expect([...ran].toSorted()).toEqual(["above above", "below below"]);
  });

  test("providers of each request, transient ones, ones that extend others and ones behind a proxy have their locks", async () => {
    class Base {
      async change(id: number): Promise<string> {
        return `${currentLease().name} of ${this.constructor.name}`.replace("0", String(id));
      }
    }
    decorate(Base, "change", Lock("order:{0}"));
    class PerRequest extends Base {}
    class Transient extends Base {
      readonly other: string = "";
      async also(): Promise<string> {
        return `${currentLease().name} ${await super.change(3)} ${this.other}`;
      }
    }
    decorate(Transient, "also", Lock("also"));
    Inject("other")(Transient.prototype, "other");
    Injectable({ scope: Scope.REQUEST })(PerRequest);
    Injectable({ scope: Scope.TRANSIENT })(Transient);
    const app = await context({
      imports: [inMemory().module],
      providers: [PerRequest, Transient, { provide: "other", useValue: "injected" }],
    });
    const made = <T>(of: Type<T>): Promise<T> => app.get(ModuleRef).resolve(of, undefined, { strict: false });
    const [first, second] = [await made(PerRequest), await made(PerRequest)];
    expect(first).not.toBe(second);
    expect([await first.change(1), await second.change(2)]).toEqual(["order:1 of PerRequest", "order:2 of PerRequest"]);
    expect(await (await made(Transient)).also()).toBe("also order:3 of Transient injected");
    expect(await new Proxy(first, {}).change(4)).toBe("order:4 of PerRequest");
    // What Nest has given it is not printed with it.
    expect(inspect(first)).toBe("PerRequest {}");
  });

  test("several stores, each by its name: two locks of one name do not exclude each other", async () => {
    class Reports {
      readonly #locks: readonly [Locks, Locks];
      constructor(locks: Locks, others: Locks) {
        this.#locks = [locks, others];
      }
      async write(): Promise<readonly boolean[]> {
        return await Promise.all(this.#locks.map((locks) => locks.isHeld("report")));
      }
      async read(): Promise<string> {
        return currentLease().name;
      }
    }
    decorateParameter(Reports as Type, undefined, 0, InjectLocks());
    decorateParameter(Reports as Type, undefined, 1, InjectLocks("reports"));
    decorate(Reports as Type, "write", Lock("report", { store: "reports", wait: 0 }));
    decorate(Reports as Type, "read", Lock("report", { wait: 0 }));
    const [one, two] = [inMemory(), inMemory("reports")];
    const app = await context({ imports: [one.module, two.module], providers: [...injectable(Reports as Type)] });
    const lease = await one.locks.acquire("report");
    expect(await app.get<Reports>(Reports as Type).write()).toEqual([true, true]);
    await expect(app.get<Reports>(Reports as Type).read()).rejects.toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
    await lease.release();
    expect(await app.get<Reports>(Reports as Type).write()).toEqual([false, true]);
    expect(await app.get<Reports>(Reports as Type).read()).toBe("report");
  });

  test("what Nest did not make from a class has no locks: it says so, until it is given some", async () => {
    class Orders {
      async change(): Promise<string> {
        return currentLease().name;
      }
    }
    decorate(Orders, "change", Lock("order"));
    const { locks, module } = inMemory();
    await expect(new Orders().change()).rejects.toThrow("attachLocks(instance, locks)");
    const useFactory = (given: Locks): Orders => attachLocks(new Orders(), given);
    const app = await context({
      imports: [module],
      providers: [{ provide: Orders, inject: ["HoldfastLocks"], useFactory }],
    });
    expect(await app.get(Orders).change()).toBe("order");
    expect(await attachLocks(new Orders(), locks).change()).toBe("order");
  });
});
