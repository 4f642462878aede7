/** The way between a process and the store: requests and replies take their time, overtake each other, or never arrive. */
import type { Backend } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { FakeClock } from "../fake-clock.ts";
import type { SeededChance } from "../seeded-random.ts";
import type { SimulatedProcess } from "./process.ts";

/** What the network is like for one process. */
export interface Weather {
  /** Share of messages lost, each way. */
  lost: number;
  /** Share of messages that are slow, each way. */
  slow: number;
  slowMs: number;
  /** The caller gives up after this long; what is under way arrives all the same. */
  patienceMs: number;
  /** True: nothing gets through. */
  cut: boolean;
}

export const FAIR_WEATHER: Readonly<Weather> = { lost: 0, slow: 0.3, slowMs: 15, patienceMs: 2000, cut: false };

export class Network {
  readonly weather: Weather = { ...FAIR_WEATHER };
  readonly #world: FakeClock;
  readonly #chance: SeededChance;
  readonly #process: SimulatedProcess;

  constructor(world: FakeClock, chance: SeededChance, process: SimulatedProcess) {
    this.#world = world;
    this.#chance = chance;
    this.#process = process;
  }

  /** The backend as the process sees it through this network. */
  over(backend: Backend): Backend {
    return {
      name: "simulated",
      attempt: (claim) => this.#call(claim.name, () => backend.attempt(claim)),
      renew: (claims, fences) => this.#call(claims[0]?.name ?? "", () => backend.renew(claims, fences)),
      release: (claim) => this.#call(claim.name, () => backend.release(claim)),
      swap: (held, next) => this.#call(held.name, () => backend.swap!(held, next)),
      watch: (claim, signal) => this.#watch(signal, (server) => backend.watch!(claim, server)),
      query: (prefix) => this.#call(prefix, () => backend.query(prefix)),
      forceRelease: (name, ...rest) => this.#call(name, () => backend.forceRelease(name, ...rest)),
      listen: (listener) =>
        backend.listen?.({
          lost: (id, reason) => this.send(() => this.#process.deliver(() => listener.lost(id, reason))),
          doubt: () => this.send(() => this.#process.deliver(() => listener.doubt())),
        }),
      close: async () => backend.close(),
    };
  }

  /** Carries one message, if it gets through. */
  send(arrive: () => void): void {
    const { weather } = this;
    const chance = this.#chance;
    if (weather.cut || chance.happens(weather.lost)) return;
    const delayMs = chance.happens(weather.slow) ? chance.between(0, weather.slowMs) : chance.between(0.1, 2);
    this.#world.setTimer(arrive, delayMs);
  }

  #call<T>(name: string, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = this.#world.setTimer(() => {
        const error = new LockBackendError("simulated", name, "no answer in time");
        this.#process.deliver(() => reject(error));
      }, this.weather.patienceMs);
      const reply = (settle: () => void): void => {
        this.send(() => {
          this.#world.clearTimer(late);
          this.#process.deliver(settle);
        });
      };
      this.send(() => {
        work().then(
          (answer) => reply(() => resolve(answer)),
          (error: Error) => reply(() => reject(error)),
        );
      });
    });
  }

  #watch<T>(signal: AbortSignal, work: (server: AbortSignal) => Promise<T | undefined>): Promise<T | undefined> {
    const server = new AbortController();
    // A connection's end is noticed, sooner or later: only messages are lost.
    const hangUp = (): void => void this.#world.setTimer(() => server.abort(), this.#chance.between(0, 50));
    const stillHere = this.#process.atDeath(hangUp);
    return new Promise((resolve) => {
      const end = (): void => {
        stillHere();
        resolve(undefined);
        hangUp();
      };
      signal.addEventListener("abort", end, { once: true });
      this.send(() => {
        void work(server.signal).then((news) => {
          if (!server.signal.aborted) this.send(() => this.#process.deliver(() => resolve(news)));
        });
      });
    });
  }
}
