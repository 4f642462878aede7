/** What all telemetry has in common: it listens until it is ended, and no fault of it reaches a lock. */
import type { Channel } from "node:diagnostics_channel";
import { types } from "node:util";
import {
  acquireChannel,
  type AcquireEvent,
  deadlockChannel,
  type DeadlockEvent,
  fenceRejectedChannel,
  type FenceRejectedEvent,
  forceReleaseChannel,
  type ForceReleaseEvent,
  holdChannel,
  type HoldEvent,
  lostChannel,
  type LostEvent,
  renewChannel,
  type RenewEvent,
} from "../contract/events.ts";
import { messageOf } from "../contract/errors.ts";
import { warn } from "../contract/warning.ts";
import { clean } from "./clean.ts";

/** What is on until it is ended. */
export interface Telemetry extends Disposable {
  /** Hears nothing from here on. */
  end(): void;
}

export interface Listeners {
  readonly acquireStart?: (event: AcquireEvent) => void;
  readonly acquireEnd?: (event: AcquireEvent) => void;
  readonly holdStart?: (event: HoldEvent) => void;
  /** When it is lost, or released, whichever is first. */
  readonly holdEnd?: (event: HoldEvent) => void;
  readonly lost?: (event: LostEvent) => void;
  readonly renew?: (event: RenewEvent) => void;
  readonly forceRelease?: (event: ForceReleaseEvent) => void;
  readonly fenceRejected?: (event: FenceRejectedEvent) => void;
  readonly deadlock?: (event: DeadlockEvent) => void;
}

/** A listener that throws would end the process, as Node has it for its channels. The first fault is a warning, the rest are counted by no one. */
export class Guard {
  readonly #from: string;
  #warned = false;

  constructor(from: string) {
    this.#from = from;
  }

  /** Calls it. `undefined` where it fails. One that is asynchronous may fail later, which would end the process, too. */
  call<T>(fn: () => T): T | undefined {
    try {
      const given = fn();
      if (types.isPromise(given)) given.catch((error: unknown) => this.#failed(error));
      return given;
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }

  #failed(error: unknown): void {
    this.warn(`${messageOf(error)}. Locks are not affected; later faults are not reported.`);
  }

  warn(text: string): void {
    if (this.#warned) return;
    this.#warned = true;
    // An error of a client library may have its URL in it.
    warn("HOLDFAST_TELEMETRY", clean(`${this.#from}: ${text}`));
  }
}

/** Subscribes all of them. What it returns ends that, once. */
export function listen(listeners: Listeners, guard: Guard): () => void {
  const ends: (() => void)[] = [];
  let isOver = false;
  const on = <E>(channel: Channel, listener: ((event: E) => void) | undefined): void => {
    if (listener === undefined) return;
    const hear = (message: unknown): void => {
      // Where it is ended in the middle of an event, Node calls it once more.
      if (isOver) return;
      try {
        listener(message as E);
      } catch (error) {
        guard.call(() => {
          throw error;
        });
      }
    };
    channel.subscribe(hear);
    ends.push(() => {
      channel.unsubscribe(hear);
    });
  };
  on(acquireChannel.start as Channel, listeners.acquireStart);
  on(acquireChannel.asyncEnd as Channel, listeners.acquireEnd);
  on(holdChannel.start as Channel, listeners.holdStart);
  on(holdChannel.error as Channel, listeners.holdEnd);
  on(holdChannel.end as Channel, unlessLost(listeners.holdEnd));
  on(lostChannel, listeners.lost);
  on(renewChannel, listeners.renew);
  on(forceReleaseChannel, listeners.forceRelease);
  on(fenceRejectedChannel, listeners.fenceRejected);
  on(deadlockChannel, listeners.deadlock);
  return () => {
    isOver = true;
    for (const end of ends.splice(0)) end();
  };
}

/** A loss was heard of when it came: the release that follows is not another end. */
function unlessLost(holdEnd: Listeners["holdEnd"]): Listeners["holdEnd"] {
  return holdEnd && ((event) => (event.error === undefined ? holdEnd(event) : undefined));
}

/** As telemetry that was turned on. */
export function endedBy(end: () => void): Telemetry {
  return { end, [Symbol.dispose]: end };
}
