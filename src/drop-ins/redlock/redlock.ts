/** `Redlock` and `Lock` of redlock 5: the same signatures, defaults and words, over its keys or over Holdfast's own. */
import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { performance } from "node:perf_hooks";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { extend, release, type Script, take } from "../rolling/generated/scripts.ts";
import { raised, TTL_MIN_MS } from "../rolling/run-script.ts";
import {
  type Client,
  type CustomScripts,
  DEFAULTS,
  type ExecutionResult,
  type ExecutionStats,
  type Grant,
  type Place,
  type RedlockAbortSignal,
  type RedlockOptions,
  type Settings,
} from "./api.ts";
import { Clean } from "./clean.ts";
import { alreadyExpired, isRefusal } from "./errors.ts";
import { Rolling, trustedUntil } from "./rolling.ts";
import { Using } from "./using.ts";

const NO_FENCES: ReadonlyMap<string, bigint> = new Map();

/** What a lock has beside what it has in redlock. */
interface LockExtra extends Partial<Pick<Grant, "fences" | "signal">> {
  /** Until when it is trusted, by `performance.now()`. */
  readonly untilMs?: number;
}

/** What is held: all of its resources, or none. */
export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** Until when it is held, by the wall clock: for show, because that clock may be set. 0 once it was released or extended. */
  expiration: number;
  /** One for each resource, where there are any. */
  readonly fences: ReadonlyMap<string, bigint>;
  /** In the clean layout: aborts before the store gives a lock to another. */
  readonly signal: AbortSignal | undefined;
  /** By `performance.now()`. */
  readonly #untilMs: number;

  constructor(
    redlock: Redlock,
    resources: string[],
    value: string,
    attempts: ReadonlyArray<Promise<ExecutionStats>>,
    expiration: number,
    extra: LockExtra = {},
  ) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
    this.fences = extra.fences ?? NO_FENCES;
    this.signal = extra.signal;
    // One that was made by hand has only the wall clock to go by: it is read once.
    this.#untilMs = extra.untilMs ?? performance.now() + expiration - Date.now();
  }

  /** How long it is still held, ms: from when it was asked for, by the monotonic clock. 0: it is over, or was released or extended. */
  remaining(): number {
    if (this.expiration === 0 || this.signal?.aborted === true) return 0;
    return Math.max(0, this.#untilMs - performance.now());
  }

  /** That of its one resource. `undefined`: it has several, or its servers are several and share their keys with redlock. */
  get fence(): bigint | undefined {
    return this.resources.length === 1 ? this.fences.get(this.resources[0] as string) : undefined;
  }

  async release(): Promise<ExecutionResult> {
    return await this.redlock.release(this);
  }

  /** Resolves to a Lock that takes the place of this one. */
  async extend(duration: number): Promise<Lock> {
    return await this.redlock.extend(this, duration);
  }
}

export class Redlock extends EventEmitter {
  readonly clients: Set<Client>;
  readonly settings: Settings;
  readonly scripts: {
    readonly acquireScript: { value: string; hash: string };
    readonly extendScript: { value: string; hash: string };
    readonly releaseScript: { value: string; hash: string };
  };
  readonly #place: Place;
  readonly #durations: WeakMap<Lock, number> = new WeakMap();

  constructor(clients: Iterable<Client>, settings: RedlockOptions = {}, scripts: CustomScripts = {}) {
    super();
    // An `error` without a listener would end the process, and a server of a minority may fail.
    this.on("error", () => {});
    this.clients = new Set(clients);
    if (this.clients.size === 0) throw new Error("Redlock must be instantiated with at least one redis client.");
    this.settings = withDefaults(settings, DEFAULTS);
    const own = {
      acquire: customised(take, scripts.acquireScript),
      extend: customised(extend, scripts.extendScript),
      release: customised(release, scripts.releaseScript),
    };
    this.scripts = {
      acquireScript: shown(own.acquire),
      extendScript: shown(own.extend),
      releaseScript: shown(own.release),
    };
    const report = (error: Error): void => void this.emit("error", error);
    if (settings.locks === undefined) {
      this.#place = new Rolling(this.clients, own, report);
    } else {
      if (Object.keys(scripts).length > 0) {
        throw new ArgumentError(
          "Expected no scripts beside `locks`: they are for the keys that are shared with redlock",
        );
      }
      this.#place = new Clean(settings.locks, this.clients, report);
    }
  }

  /** Ends the clients' connections. `locks` stay open: they are yours. */
  async quit(): Promise<void> {
    await Promise.all([...this.clients].map((client) => quit(client)));
  }

  /** Takes the resources for `duration` ms. Rejects with an ExecutionError if no majority of the servers granted them, in any attempt. */
  async acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkResources(resources);
    checkDuration(duration);
    const { place, terms } = this.#with(settings);
    const durationMs = raised(duration);
    const grant = await place.take(resources, durationMs, terms);
    return this.#lock(resources, durationMs, terms, grant);
  }

  /** Gives the lock back. Rejects with an ExecutionError if a majority no longer had it. */
  async release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    const { place, terms } = this.#with(settings);
    // After its time there is nothing left to release.
    const limitMs = this.#durations.get(lock) ?? Math.max(TTL_MIN_MS, lock.remaining());
    lock.expiration = 0;
    return await place.release(lock, limitMs, terms);
  }

  /** Resolves to a Lock that lasts `duration` ms from now on; the one before is over. */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration);
    const { place, terms } = this.#with(settings);
    const leftMs = existing.remaining();
    if (leftMs <= 0) throw alreadyExpired();
    const durationMs = raised(duration);
    const timed = await place
      .extend(existing, durationMs, performance.now() + leftMs, terms)
      .catch((error: unknown) => {
        if (isRefusal(error)) existing.expiration = 0;
        throw error;
      });
    existing.expiration = 0;
    const { resources, value, fences } = existing;
    return this.#lock(resources, durationMs, terms, { ...timed, value, fences });
  }

  /** Runs `routine` while holding the resources, and extends them. Its signal aborts, with `error`, when that fails. */
  using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
    routine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  using<T>(resources: string[], duration: number, routine: (signal: RedlockAbortSignal) => Promise<T>): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    settingsOrRoutine: Partial<Settings> | ((signal: RedlockAbortSignal) => Promise<T>),
    optionalRoutine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T> {
    checkDuration(duration);
    const isRoutine = typeof settingsOrRoutine === "function";
    const settings = withDefaults(isRoutine ? {} : settingsOrRoutine, this.settings);
    const routine = optionalRoutine ?? settingsOrRoutine;
    if (typeof routine !== "function") throw new Error("INVARIANT: routine is not a function.");
    if (settings.automaticExtensionThreshold > duration - 100) {
      throw new Error(
        "A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.",
      );
    }
    const lock = await this.acquire(resources, duration, settings);
    return await new Using<Lock>(lock, duration, settings.automaticExtensionThreshold).run(routine);
  }

  #lock(resources: string[], durationMs: number, terms: Settings, grant: Grant): Lock {
    const { value, attempts, fences, signal, sentMs, fromMs } = grant;
    const extra = { fences, signal, untilMs: trustedUntil(sentMs, durationMs, terms) };
    const lock = new Lock(this, resources, value, attempts, trustedUntil(fromMs, durationMs, terms), extra);
    this.#durations.set(lock, durationMs);
    return lock;
  }

  #with(settings: Partial<Settings> | undefined): { readonly place: Place; readonly terms: Settings } {
    return {
      place: this.#place,
      terms: settings === undefined ? this.settings : withDefaults(settings, this.settings),
    };
  }
}

/** Before anything is taken: what is no array would fail after that. */
function checkResources(resources: unknown): void {
  if (!Array.isArray(resources))
    throw new ArgumentError(`Expected \`resources\` to be an array, got ${got(resources)}`);
}

function checkDuration(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error("Duration must be an integer value in milliseconds.");
}

/** What is no number counts as not given. */
function withDefaults(settings: Partial<Settings> | null | undefined, defaults: Settings): Settings {
  const number = (name: keyof Settings): number => {
    const value = settings?.[name];
    return typeof value === "number" ? value : defaults[name];
  };
  return {
    driftFactor: number("driftFactor"),
    retryCount: number("retryCount"),
    retryDelay: number("retryDelay"),
    retryJitter: number("retryJitter"),
    automaticExtensionThreshold: number("automaticExtensionThreshold"),
  };
}

/** As in redlock 5, a function is asked, and a text is not. */
function customised(script: Script, custom: CustomScripts["acquireScript"]): Script {
  if (typeof custom !== "function") return script;
  const source = custom(script.source);
  return { name: script.name, source, sha: createHash("sha1").update(source).digest("hex") };
}

function shown({ source, sha }: Script): { value: string; hash: string } {
  return { value: source, hash: sha };
}

async function quit(client: Client): Promise<void> {
  const { quit: end, close } = client as { quit?: () => Promise<unknown>; close?: () => Promise<unknown> };
  await (end ?? close)?.call(client);
}
