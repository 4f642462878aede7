/** The program's subscribers to the library's events, each of which acts once, inside of the event. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { inside } from "./around.ts";
import type { EventName } from "./program.ts";
import type { Client } from "./stage.ts";

export const EVENTS: readonly EventName[] = [
  "lost",
  "renew",
  "force-release",
  "acquire:start",
  "acquire:asyncEnd",
  "hold:start",
  "hold:end",
  "hold:error",
];

export class Subscribers {
  readonly #endings = new Set<() => void>();

  /** Calls `act` at the first such event in the client's process: events are a process's own. */
  on(client: Client, event: EventName, act: () => void): void {
    const channel = event.includes(":") ? `tracing:holdfast:${event}` : `holdfast:${event}`;
    const hear = (message: unknown): void => {
      if ((message as { readonly backend?: unknown }).backend !== client.backendName) return;
      end();
      // Whatever sets it off, a subscriber is inside of no lease.
      inside(undefined, act);
    };
    const end = (): void => {
      unsubscribe(channel, hear);
      this.#endings.delete(end);
    };
    this.#endings.add(end);
    subscribe(channel, hear);
  }

  /** The channels are the whole process's: the next program must find no subscriber there. */
  end(): void {
    for (const end of this.#endings) end();
  }
}
