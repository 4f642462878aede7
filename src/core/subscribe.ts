/** `subscribe()`: the events of Holdfast with their types, on `diagnostics_channel`. */
import { subscribe as subscribeTo, unsubscribe } from "node:diagnostics_channel";
import { ArgumentError, got } from "../contract/argument-error.ts";
import type {
  AcquireEvent,
  FenceRejectedEvent,
  ForceReleaseEvent,
  HoldEvent,
  LostEvent,
  RenewEvent,
} from "../contract/events.ts";

/** What one can subscribe to. */
export interface HoldfastEvents {
  /** An acquire begins. */
  readonly "acquire:start": AcquireEvent;
  /** An acquire is over, whatever came of it. */
  readonly acquire: AcquireEvent;
  /** A lease begins. */
  readonly "hold:start": HoldEvent;
  /** A lease is over. */
  readonly hold: HoldEvent;
  /** A lease ended before it was released. */
  readonly lost: LostEvent;
  /** A batch of renewals was answered, or not. */
  readonly renew: RenewEvent;
  /** A lease was ended by force from here. */
  readonly "force-release": ForceReleaseEvent;
  /** A guard refused an old fence. */
  readonly "fence-rejected": FenceRejectedEvent;
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
};

/**
 * Calls the listener for each such event of this process. Returns a function that ends that. A listener that
 * throws ends the process, as Node has it for its channels.
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
  const hear = (event: unknown): void => listener(event as HoldfastEvents[Name]);
  subscribeTo(channel, hear);
  return () => void unsubscribe(channel, hear);
}
