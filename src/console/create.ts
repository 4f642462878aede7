/** createConsole(): the page of all locks, as a handler for an app; and the same with a login of its own, for `holdfast console`. */
import type { Locks } from "../core/api.ts";
import { type Console, Handler } from "./handler.ts";
import type { Login } from "./login.ts";
import { checkOptions, type ConsoleOptions } from "./options.ts";

/**
 * A page that shows all locks of the store, live: mount it in Node's `http`, Express, Fastify or Nest. `authorize` says who may see it.
 * Throws a `TypeError` without it.
 */
export function createConsole(locks: Locks, options: ConsoleOptions): Console {
  return withLogin(locks, options, undefined);
}

export function withLogin(locks: Locks, options: ConsoleOptions, login: Login | undefined): Console {
  const handler = new Handler(locks, checkOptions(locks, options), login);
  const close = (): void => handler.close();
  return Object.assign((...[request, response]: Parameters<Console>) => void handler.handle(request, response), {
    close,
    [Symbol.dispose]: close,
  });
}
