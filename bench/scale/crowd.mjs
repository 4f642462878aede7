/**
 * Many clients of one store: each has a createLocks() and a connection of its own, as a process has. They live in a few processes, because
 * two hundred of Node are more than a small machine can start in a minute.
 */
import { Team } from "../lib/team.mjs";

const PROCESSES = 8;

export class Crowd {
  #team;
  size = 0;

  constructor(team) {
    this.#team = team;
  }

  static async start(env) {
    return new Crowd(await Team.start({ family: "scale", name: "crowd" }, PROCESSES, env));
  }

  async grow(size) {
    await this.step("grow", {}, (index) => ({ members: Math.ceil((size - index) / PROCESSES) }));
    this.size = size;
  }

  /** Gives all the same step; `own(index)` adds what differs between the processes. */
  async step(step, order = {}, own = () => ({}), limitMs = 300_000) {
    return await this.#team.order({ do: "step", step, ...order }, own, limitMs);
  }

  async stop() {
    await this.#team.stop();
  }
}
