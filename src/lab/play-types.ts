/** What a play consists of: its actors while it runs, and its result. */
import type { Client } from "./clients/client.ts";
import type { History, LabEvent } from "./events.ts";
import type { Library } from "./libraries/library.ts";
import type { Proxy } from "./proxy.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import type { WallClock } from "./servers/wall-clock.ts";
import type { Stage, StageLink } from "./stage.ts";

/** A client on stage, with its own network and, where a step asks for it, its own wall clock. */
export interface Actor {
  readonly client: Client;
  readonly link: StageLink;
  /** Its way to the protected thing. */
  readonly counterProxy: Proxy;
  readonly wallClock: WallClock | undefined;
  /** What it does in the background. */
  later: Promise<unknown>;
}

/** A step that did not end as the scenario says. */
export interface Surprise {
  readonly about: "acquire" | "check" | "release" | "error";
  readonly text: string;
}

export interface Play {
  readonly scenario: Scenario;
  readonly stage: Stage;
  readonly history: History;
  readonly actors: ReadonlyMap<string, Actor>;
  readonly surprises: Surprise[];
}

export interface PlayResult {
  readonly scenario: Scenario;
  readonly stage: { readonly backend: Stage["backend"]; readonly observers: readonly string[] };
  readonly library: Library;
  readonly ttlMs: number;
  readonly events: readonly LabEvent[];
  readonly startMs: number;
  readonly endMs: number;
  readonly surprises: readonly Surprise[];
  /** What was left in the store at the end. */
  readonly leaks: readonly string[];
  readonly values: { readonly plain: number; readonly guarded: number };
}
