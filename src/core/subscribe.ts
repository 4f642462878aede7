/** `subscribe()`: the events of Holdfast with their types, on `diagnostics_channel`. */
import { subscribe as subscribeTo, unsubscribe } from "node:diagnostics_channel";
import { ArgumentError, got } from "../contract/argument-error.ts";
import type {
  AcquireEvent,
  DeadlockEvent,
  FenceRejectedEvent,
  ForceReleaseEvent,
  HoldEvent,
  LostEvent,
  RenewEvent,
} from "../contract/events.ts";

/** With what is known at the end. */
type Over<E, Known extends keyof E> = E & Required<Pick<E, Known>>;

/** What one can subscribe to. */
export interface HoldfastEvents {
  /** An acquire begins. */
  readonly "acquire:start": AcquireEvent;
  /** An acquire is over, whatever came of it. */
  readonly acquire: Over<AcquireEvent, "outcome" | "waitedMs" | "contended" | "attempts">;
  /** A lease begins. */
  readonly "hold:start": HoldEvent;
  /** A lease is over. */
  readonly hold: Over<HoldEvent, "heldMs" | "end">;
  /** A lease ended before it was released. */
  readonly lost: LostEvent;
  /** A batch of renewals was answered, or not. */
  readonly renew: RenewEvent;
  /** A lease was ended by force from here. */
  readonly "force-release": ForceReleaseEvent;
  /** A guard refused an old fence. */
  readonly "fence-rejected": FenceRejectedEvent;
  /** Callers wait for each other, and one of this process is among them. */
  readonly deadlock: DeadlockEvent;
}

const CHANNELS: Readonly<Record<keyof HoldfastEvents, string>> = {
  "acquire:start": "tracing:holdfast:acquire:start",
  acquire: "tracing:holdfast:acquire:asyncEnd",
  "hold:start": "tracing:holdfast:hold:start",
  hold: "tracing:holdfast:hold:end",
  lost: "holdfast:lost",
  renew: "holdfast:renew",
  "force-release": "holdfast:force-release",
  "fence-rejected": "holdfast:fence-rejected",
  deadlock: "holdfast:deadlock",
};

/**
 * Calls the listener for each such event of this process. Returns a function that ends that. A listener that
 * throws or rejects ends the process, as Node has it for its channels.
 */
export function subscribe<Name extends keyof HoldfastEvents>(
  name: Name,
  listener: (event: HoldfastEvents[Name]) => void,
): () => void {
  const channel = Object.hasOwn(CHANNELS, name) ? CHANNELS[name] : undefined;
  if (channel === undefined) {
    const known = Object.keys(CHANNELS).map((one) => JSON.stringify(one));
    throw new ArgumentError(`Expected \`name\` to be one of ${known.join(", ")}, got ${got(name)}`);
  }
  if (typeof listener !== "function")
    throw new ArgumentError(`Expected \`listener\` to be a function, got ${got(listener)}`);
  let isOver = false;
  const hear = (event: unknown): void => {
    // Where it is ended in the middle of an event, Node calls it once more.
    if (!isOver) listener(event as HoldfastEvents[Name]);
  };
  subscribeTo(channel, hear);
  return () => {
    isOver = true;
    unsubscribe(channel, hear);
  };
}
