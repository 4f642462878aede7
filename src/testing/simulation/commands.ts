/**
 * Questions to the store, over a connection that may end. What has no answer then is sent again by some clients, so the store
 * may do it twice, and given up by others. Either way no call waits longer than the current patience.
 */
import { LockBackendError } from "../../contract/errors.ts";
import type { FakeClock } from "../fake-clock.ts";
import type { SimulatedProcess } from "./process.ts";
import type { Road } from "./road.ts";

/** How often a request reaches the store although its connection ended on the way. */
const REQUEST_SURVIVES = 0.5;

/** A question that has no answer yet. */
interface Call {
  send(): void;
  fail(why: string): void;
}

export class Commands {
  /** How many questions the store has done more than once. */
  doneTwice = 0;
  readonly #world: FakeClock;
  readonly #process: SimulatedProcess;
  readonly #road: Road;
  readonly #calls = new Set<Call>();

  /** `resends`: as ioredis does. Others report to their callers that the connection ended. */
  constructor(world: FakeClock, process: SimulatedProcess, road: Road, resends: boolean) {
    this.#world = world;
    this.#process = process;
    this.#road = road;
    road.onReset = () => {
      if (!resends) process.deliver(() => this.#each((call) => call.fail("the connection ended")));
    };
    road.onReconnect = () => process.deliver(() => this.#each((call) => call.send()));
  }

  /** Lets the store do `step`, and understands its answer with `hear`, which learns whether it was sent more than once. */
  ask<A, T>(
    name: string,
    step: () => Promise<A>,
    hear: (answer: A, twice: boolean) => T,
    failed?: () => void,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      let sent = 0;
      let done = 0;
      const end = (settle: () => void): void => {
        if (!this.#calls.delete(call)) return;
        this.#world.clearTimer(late);
        settle();
      };
      const fail = (error: unknown): void =>
        end(() => {
          failed?.();
          reject(error as Error);
        });
      const reply = (settle: () => void): void => this.#road.send(() => this.#process.deliver(settle));
      const arrive = (): void => {
        if (++done === 2) this.doneTwice++;
        step().then(
          (answer) =>
            reply(() =>
              end(() => {
                try {
                  resolve(hear(answer, sent > 1));
                } catch (error) {
                  reject(error as Error);
                }
              }),
            ),
          (error: unknown) => reply(() => fail(error)),
        );
      };
      const call: Call = {
        send: () => {
          sent++;
          this.#road.send(arrive, REQUEST_SURVIVES);
        },
        fail: (why) => fail(new LockBackendError("simulated", name, why)),
      };
      const late = this.#world.setTimer(
        () => this.#process.deliver(() => call.fail("no answer in time")),
        this.#road.weather.patienceMs,
      );
      this.#calls.add(call);
      call.send();
    });
  }

  /** A copy, because a caller that learns of a failure may ask again at once. */
  #each(what: (call: Call) => void): void {
    const calls = [...this.#calls];
    for (const call of calls) what(call);
  }
}
