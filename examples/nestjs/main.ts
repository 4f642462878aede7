// One change of an order at a time, invoices that are made once, and a clean end: with NestJS.
//
//   tsc -p examples/nestjs && node examples/nestjs/dist/main.js
import "reflect-metadata";
import { Body, Catch, Controller, type ExceptionFilter, Injectable, Module, Param, Post } from "@nestjs/common";
import type { ArgumentsHost } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { LockTimeoutError, type Locks } from "holdfast";
import { currentLease, InjectLocks, Lock, LocksModule, Once } from "holdfast/nestjs";

interface Order {
  readonly id: string;
  readonly amount: number;
}

@Injectable()
class Invoices {
  // Of all calls for one order, in all processes, one runs. The others get its value, for a day.
  @Once("invoice:{0.id}", { keep: "24h" })
  async make(order: Order): Promise<{ readonly paid: number }> {
    const { fence, signal } = currentLease();
    console.log(`charging ${order.amount}, fence is a ${typeof fence}, lost: ${signal.aborted}`);
    return { paid: order.amount };
  }
}

@Controller("orders")
class Orders {
  // Types of what is injected are values in Nest, so they are given by name where they are interfaces.
  constructor(
    private readonly invoices: Invoices,
    @InjectLocks() private readonly locks: Locks,
  ) {}

  @Post(":id/pay")
  async pay(@Param("id") id: string, @Body() body: { readonly amount: number }): Promise<unknown> {
    return await this.invoices.make({ id, amount: body.amount });
  }

  // Guards, pipes and interceptors come first: a request that they refuse takes no lock.
  @Post(":id")
  @Lock("order:{0}", { wait: 0 })
  async change(@Param("id") id: string): Promise<string> {
    const second = await fetch(`${url}/orders/${id}`, { method: "POST" });
    currentLease().assertHeld();
    return `held: ${await this.locks.isHeld(`order:${id}`)}; another request gets ${second.status}`;
  }
}

// What a busy lock is for the client is up to the application.
@Catch(LockTimeoutError)
class Busy implements ExceptionFilter {
  catch(_error: LockTimeoutError, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse();
    response.status(409).setHeader("retry-after", "1").json({ message: "busy, try again" });
  }
}

// HOLDFAST_URL says where the locks are; without it, they are on this machine.
@Module({ imports: [LocksModule.forRoot({ grace: "5s" })], controllers: [Orders], providers: [Invoices] })
class App {}

const app = await NestFactory.create(App, { logger: ["error", "warn"] });
app.useGlobalFilters(new Busy());
// On SIGTERM the requests end, and then the locks are closed.
app.enableShutdownHooks();
await app.listen(0, "127.0.0.1");
const url = await app.getUrl();

const pay = async (): Promise<void> => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/orders/42/pay`, { method: "POST", headers, body: '{"amount":100}' });
  console.log(response.status, await response.text());
};
await pay();
await pay();
console.log(await (await fetch(`${url}/orders/42`, { method: "POST" })).text());
await app.close();
