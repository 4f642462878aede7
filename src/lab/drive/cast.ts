/** The clients of a round, in this process: all share one event loop, so their beliefs can be compared at one instant. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Locks } from "../../core/api.ts";
import { Actor, type OwnAct } from "./actor.ts";
import { Beliefs } from "./beliefs.ts";
import type { Holdfast } from "./library.ts";
import type { Report } from "./report.ts";
import type { ProcessAct } from "./schedule.ts";
import type { DrivenStore, StoreClient } from "./store.ts";
import { Tasks } from "./tasks.ts";

/** How often clients are looked at for listeners, 50 ms apart. */
const LISTENER_LOOKS = 200;

/** Those who play a round. */
export interface Cast {
  /** Their networks, one entry for each client. */
  readonly clients: readonly StoreClient[];
  perform(client: number, step: number, act: OwnAct): void;
  process?(client: number, what: ProcessAct, forMs: number): Promise<void>;
  /** Resolves when every call has settled, or was found not to. */
  settled(): Promise<void>;
  /** Closes all locks. */
  finish(): Promise<void>;
  /** Ends what is left. */
  stop(): Promise<void>;
}

export interface CastTerms {
  readonly prefix: string;
  readonly run: number;
  readonly closed: (client: number, holder: string, step: number, clean: boolean) => Promise<void>;
}

export async function castHere(
  store: DrivenStore,
  holdfast: Holdfast,
  report: Report,
  { prefix, run, closed }: CastTerms,
): Promise<Cast> {
  const shared = { tasks: new Tasks(report), beliefs: new Beliefs(holdfast, report) };
  const clients: StoreClient[] = [];
  for (let i = 0; i < store.possible.clients; i++) clients.push(await store.client());
  const before = clients.map((client) => client.listeners());
  const actors = clients.map((client, i) => {
    const open = (holder: string): Locks => client.open(holder, run);
    const setup = { name: `c${i + 1}`, prefix, holdfast, reporter: report, open };
    return new Actor({ ...setup, closed: (...args) => closed(i, ...args) }, shared);
  });
  /** A client that connects has listeners of its own meanwhile. */
  const lookForListeners = async (): Promise<void> => {
    const more = (): readonly number[] => clients.map((client, i) => client.listeners() - (before[i] ?? 0));
    for (let looks = 0; more().some((count) => count > 0) && looks < LISTENER_LOOKS; looks++) await sleep(50);
    more().forEach((count, i) => {
      if (count > 0) report.find({ step: 0, rule: "listener left", message: `${count} on the client of c${i + 1}` });
    });
  };
  return {
    clients,
    perform: (client, step, act) => actors[client]?.perform(step, act),
    settled: () => shared.tasks.settled(),
    finish: async () => {
      await Promise.race([Promise.all(actors.map((actor) => actor.finish())), shared.tasks.settled()]);
      await shared.tasks.settled();
      await lookForListeners();
    },
    stop: async () => {
      shared.tasks.stop();
      shared.beliefs.stop();
      await Promise.all(clients.map((client) => client.close()));
    },
  };
}
