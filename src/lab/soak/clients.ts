/** The soak's clients on one stage: started, replaced when killed, stopped and counted at the end. */
import { startClient } from "../clients/client.ts";
import type { Client, SectionMessage } from "../clients/client.ts";
import type { Closed } from "../clients/orders.ts";
import { History } from "../events.ts";
import { makeWallClock } from "../servers/wall-clock.ts";
import type { Stage, StageLink } from "../stage.ts";
import type { Victim } from "./faults.ts";
import { SoakRecord } from "./record.ts";

export interface SoakClientsOptions {
  readonly seed: number;
  readonly ttlMs: number;
  readonly epochMs: number;
  readonly clients: number;
}

const LOCKS = 3;
const LOOPS = 3;

export class SoakClients {
  readonly record: SoakRecord;
  readonly victims: Victim[] = [];
  readonly #stage: Stage;
  readonly #options: SoakClientsOptions;
  #lives = 0;

  constructor(stage: Stage, options: SoakClientsOptions) {
    this.#stage = stage;
    this.#options = options;
    this.record = new SoakRecord(options.epochMs);
  }

  async start(): Promise<void> {
    for (let i = 1; i <= this.#options.clients; i++) this.victims.push(await this.#enlist(`client${i}`));
  }

  /** Ends the loops and closes the locks. */
  async stop(): Promise<readonly Closed[]> {
    await Promise.all(this.victims.map(({ client }) => client.tell({ do: "stop sections" })));
    return await Promise.all(this.victims.map(({ client }) => client.stop(true)));
  }

  /** For the end of a soak that failed. */
  async kill(): Promise<void> {
    await Promise.all(this.victims.map(({ client }) => client.kill()));
    for (const { wallClock } of this.victims) wallClock?.stop();
  }

  async #enlist(name: string): Promise<Victim> {
    const link = await this.#stage.link(name);
    const wallClock = link.proxies.length > 0 ? await makeWallClock() : undefined;
    const start = (): Promise<Client> => this.#startClient(name, link, wallClock?.env);
    const victim: Victim = {
      client: await start(),
      proxies: link.proxies,
      wallClock,
      replace: async () => {
        victim.client = await start();
      },
    };
    return victim;
  }

  async #startClient(
    name: string,
    link: StageLink,
    env: Readonly<Record<string, string>> | undefined,
  ): Promise<Client> {
    const life = ++this.#lives;
    // Each life is another claimant: a dead one's last words are not its successor's.
    const client = await startClient(
      {
        client: `${name}.${life}`,
        lock: "",
        library: "holdfast",
        link: { url: link.url, ports: link.ports },
        counterUrl: "",
        env,
        onSection: (message) => this.#hear(message),
      },
      new History(),
    );
    const { seed, ttlMs, epochMs } = this.#options;
    const plan = { seed: seed + 100 * life, loops: LOOPS, ttlMs, locks: LOCKS, epochMs };
    // Ends with the client, one way or another.
    client.tell({ do: "sections", plan }).catch(() => undefined);
    return client;
  }

  #hear(message: SectionMessage): void {
    if (message.type === "claimant") this.record.hear(message.event);
    else void this.record.write(message.lock, message.who, message.fence);
  }
}
