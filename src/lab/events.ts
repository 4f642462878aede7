/** What happened in a play: facts with an instant of the machine's monotonic clock, which all processes share. */
import { machineMs } from "../contract/machine-clock.ts";

/** A register of the protected thing: one takes every write, the other refuses old fences. */
export type Register = "plain" | "guarded";

export type Happening =
  /** A client asks for the lock. */
  | { readonly kind: "asked" }
  /** `untilMs`: the client may believe until then, unless it learns otherwise. Infinity: it never doubts by itself. */
  | { readonly kind: "granted"; readonly fence: bigint | undefined; readonly untilMs: number }
  /** A renewal moved the instant. */
  | { readonly kind: "trust"; readonly untilMs: number }
  /** The client learned, or saw, that its lease is gone. */
  | { readonly kind: "lost"; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string }
  /** The client calls release: it believes no longer. */
  | { readonly kind: "releasing" }
  | { readonly kind: "released"; readonly result: string }
  /** The client looked whether it still holds the lock. */
  | { readonly kind: "checked"; readonly held: boolean }
  /** The protected thing answers a write. `read`: the value on which the writer built. */
  | {
      readonly kind: "write";
      readonly register: Register;
      readonly by: string;
      readonly fence: bigint | undefined;
      readonly accepted: boolean;
      readonly read: number;
      readonly value: number;
    }
  /** The lab caused a fault, or healed it. `sign` is for the picture. */
  | { readonly kind: "fault"; readonly sign: FaultSign; readonly text: string }
  /** Who holds the lock in this store now. `away`: the store could not be asked. */
  | { readonly kind: "truth"; readonly holders: readonly string[]; readonly away?: boolean };

export type FaultSign =
  | "pause"
  | "resume"
  | "jump"
  | "kill"
  | "restart"
  | "cut"
  | "heal"
  | "lose"
  | "delay"
  | "block"
  | "note";

export type LabEvent = Happening & { readonly atMs: number; readonly lane: string };

/** Collects events in the order of their instants. */
export class History {
  readonly #events: LabEvent[] = [];
  /** Instants are shown relative to this one. */
  readonly startMs: number = machineMs();

  add(lane: string, happening: Happening, atMs: number = machineMs()): void {
    this.#events.push({ ...happening, lane, atMs });
  }

  get events(): readonly LabEvent[] {
    return this.#events.toSorted((a, b) => a.atMs - b.atMs);
  }
}
