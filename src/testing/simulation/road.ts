/**
 * One connection between a process and the store. What goes over it takes its time, overtakes, stands still, or never
 * arrives. A process has two, one for commands and one for messages, and neither knows what the other lives through.
 */
import type { FakeClock } from "../fake-clock.ts";
import type { SeededChance } from "../seeded-random.ts";

/** What a connection is like. */
export interface Weather {
  /** Share of what is lost, each way. */
  lost: number;
  /** Share of what is slow, each way. */
  slow: number;
  slowMs: number;
  /** A caller gives up after this long; what is under way arrives all the same. */
  patienceMs: number;
  /** True: nothing gets through. */
  cut: boolean;
}

export const FAIR_WEATHER: Readonly<Weather> = { lost: 0, slow: 0.3, slowMs: 15, patienceMs: 2000, cut: false };

export class Road {
  readonly weather: Weather = { ...FAIR_WEATHER };
  /** Called when the connection has ended, and when there is a new one. */
  onReset: (() => void) | undefined;
  onReconnect: (() => void) | undefined;
  readonly #world: FakeClock;
  readonly #chance: SeededChance;
  /** True: what is sent while there is no connection waits for the next one. False: it is lost. */
  readonly #patient: boolean;
  /** Which connection this is: the first, the second … */
  #life = 0;
  #downUntilMs = -Infinity;
  #stalledUntilMs = -Infinity;

  constructor(world: FakeClock, chance: SeededChance, patient: boolean) {
    this.#world = world;
    this.#chance = chance;
    this.#patient = patient;
  }

  /** Carries something, if it gets through. `survives`: how often it arrives although its connection ended on the way. */
  send(arrive: () => void, survives = 0): void {
    const { weather } = this;
    const chance = this.#chance;
    if (weather.cut || chance.happens(weather.lost)) return;
    const downMs = Math.max(0, this.#downUntilMs - this.#world.now());
    if (downMs > 0 && !this.#patient) return;
    const wayMs = chance.happens(weather.slow) ? chance.between(0, weather.slowMs) : chance.between(0.1, 2);
    const life = this.#life;
    const land = (): void => {
      const stallMs = this.#stalledUntilMs - this.#world.now();
      if (stallMs > 0) this.#world.setTimer(land, stallMs);
      else if (life === this.#life || chance.happens(survives)) arrive();
    };
    this.#world.setTimer(land, downMs + wayMs);
  }

  /** Nothing arrives for a while. What was under way, and what is sent meanwhile, arrives afterwards. */
  stall(ms: number): void {
    this.#stalledUntilMs = Math.max(this.#stalledUntilMs, this.#world.now() + ms);
  }

  /** The connection ends, with all that is under way; after a while there is another. */
  reset(downMs: number): void {
    const life = ++this.#life;
    this.#downUntilMs = this.#world.now() + downMs;
    this.#stalledUntilMs = -Infinity;
    this.onReset?.();
    this.#world.setTimer(() => {
      if (life === this.#life) this.onReconnect?.();
    }, downMs);
  }

  /** The faults are over. */
  mend(): void {
    Object.assign(this.weather, FAIR_WEATHER);
    this.#stalledUntilMs = -Infinity;
  }
}
