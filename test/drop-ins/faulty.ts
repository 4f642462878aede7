/** A server behind a faulty network, for the drop-ins; and a client whose calls a test can look at, hold back and refuse. */
import { Redis, type RedisOptions } from "ioredis";
import { onTestFinished } from "vitest";
import { type Proxy, startProxy } from "../../src/lab/proxy.ts";
import type { RedisServer } from "../../src/lab/servers/redis.ts";

/** A proxy to that server, and a client that goes through it. Both end with the test. */
export async function faultyClient(
  { host, port, password }: RedisServer,
  options: RedisOptions = {},
): Promise<{ readonly proxy: Proxy; readonly client: Redis }> {
  const proxy = await startProxy({ host, port });
  const client = new Redis({ host: proxy.host, port: proxy.port, password, retryStrategy: () => 20, ...options });
  client.on("error", () => undefined);
  onTestFinished(async () => {
    client.disconnect();
    await proxy.stop();
  });
  await client.ping();
  return { proxy, client };
}

/** One call of a script: `again` is true where its text is sent, because the server did not know it. */
export interface Sent {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly again: boolean;
}

/** A client of `to` that asks `meet` before each call: what that throws is the answer, and no call is made. */
export function watchedClient(
  to: Redis,
  meet: (sent: Sent) => Promise<void> | void,
): Pick<Redis, "evalsha" | "eval"> & { readonly sent: readonly Sent[] } {
  const sent: Sent[] = [];
  const watch = async (again: boolean, [, count, ...rest]: readonly unknown[]): Promise<void> => {
    const texts = rest.map(String);
    const one = { keys: texts.slice(0, Number(count)), args: texts.slice(Number(count)), again };
    sent.push(one);
    await meet(one);
  };
  return {
    sent,
    evalsha: async (...args: Parameters<Redis["evalsha"]>) => (await watch(false, args), to.evalsha(...args)),
    eval: async (...args: Parameters<Redis["eval"]>) => (await watch(true, args), to.eval(...args)),
  } as unknown as Pick<Redis, "evalsha" | "eval"> & { readonly sent: readonly Sent[] };
}

/** A door that is shut until it is opened. */
export function door(): { readonly passed: Promise<void>; open(): void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => (open = resolve));
  return { passed, open: () => open() };
}

/** Loses the answer to the next question, once the server has given it; then the connection breaks, and the client sends the question again. */
export async function loseNextReply(proxy: Proxy): Promise<void> {
  await new Promise<void>((resolve) => {
    proxy.onReply = () => (resolve(), "drop");
  });
  proxy.onReply = undefined;
  proxy.cut();
}
