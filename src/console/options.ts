/** What createConsole() is given, and its checks. */
import type { IncomingMessage } from "node:http";
import { ArgumentError, got } from "../contract/argument-error.ts";
import { type Clock, systemClock } from "../contract/clock.ts";
import type { Locks } from "../core/api.ts";
import type { Metrics } from "../telemetry/prometheus/metrics.ts";
import type { Finding } from "./wire.ts";

/** What a request wants to do. */
export interface ConsoleAction {
  /** `read`: the page and all that it shows. `metrics`: the figures for Prometheus. `release`: end a lease by force. */
  readonly kind: "read" | "metrics" | "release";
  /** Of a release: which lock. Absent: whether there is to be a button for it at all. */
  readonly lock?: string | undefined;
  /** Of a release. */
  readonly fence?: bigint | undefined;
  /** Of a release. */
  readonly reason?: string | undefined;
}

/** The name of the user, which is written to the audit and kept in the store; anything that is not a text means no. */
export type Authorize = (
  request: IncomingMessage,
  action: ConsoleAction,
) => string | null | undefined | false | Promise<string | null | undefined | false>;

/** An action, or a try of one. */
export interface AuditEntry {
  /** When, in ISO 8601. */
  readonly at: string;
  /** Who: what `authorize` returned. Empty: it said no. */
  readonly who: string;
  readonly action: "release" | "login";
  readonly outcome: "done" | "gone" | "refused" | "failed";
  readonly lock?: string | undefined;
  readonly fence?: string | undefined;
  readonly reason?: string | undefined;
  /** Why it was refused, or failed. */
  readonly why?: string | undefined;
  /** Where the request came from, as the socket says. */
  readonly address?: string | undefined;
}

/** What is known of the store besides its answers: what `holdfast doctor` says. */
export interface StoreHealth {
  readonly findings: readonly Finding[];
}

export interface ConsoleOptions {
  /** Asked for every request. Behind a proxy every request looks local, so there is no default. */
  readonly authorize: Authorize;
  /** True: who is authorized may end leases by force. @default false */
  readonly allowRelease?: boolean | undefined;
  /** Where it is mounted, such as `/admin/locks`, unless the framework says so in `request.baseUrl`. @default "" */
  readonly path?: string | undefined;
  /** Names under which it may be asked for, without ports: others are refused. @default any */
  readonly hosts?: readonly string[] | undefined;
  /** Gets a line for every action. It is not waited for. @default one JSON line on stderr */
  readonly audit?: ((entry: AuditEntry) => unknown) | undefined;
  /** What stands at the top of the page: which store this is. @default "" */
  readonly title?: string | undefined;
  /** Where traces are shown, such as `https://traces.example/trace/{traceId}`. @default none: the id is shown */
  readonly traceUrl?: string | undefined;
  /** Asked once a minute while someone watches. @default only the store's own answers are shown */
  readonly health?: (() => Promise<StoreHealth>) | undefined;
  /** From collectMetrics(), for `GET metrics`. @default figures of its own, from now on */
  readonly metrics?: Pick<Metrics, "text" | "contentType"> | undefined;
  /** How many pages may watch at once. @default 50 */
  readonly maxViewers?: number | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
}

const DEFAULTS = { maxViewers: 50 } as const;
const VIEWERS_MAX = 10_000;
const OPTIONS = new Set([
  "authorize",
  "allowRelease",
  "path",
  "hosts",
  "audit",
  "title",
  "traceUrl",
  "health",
  "metrics",
  "maxViewers",
  "clock",
]);

export interface CheckedOptions extends ConsoleOptions {
  readonly allowRelease: boolean;
  readonly title: string;
  readonly maxViewers: number;
  readonly clock: Clock;
}

export function checkOptions(locks: Locks, options: ConsoleOptions): CheckedOptions {
  if (typeof (locks as Partial<Locks> | null)?.query !== "function")
    throw new ArgumentError(`Expected \`locks\` to come from connect() or createLocks(), got ${got(locks)}`);
  if (typeof options !== "object" || options === null)
    throw new ArgumentError(`Expected \`options\` to be an object with \`authorize\`, got ${got(options)}`);
  for (const option of Object.keys(options))
    if (!OPTIONS.has(option)) throw new ArgumentError(`Unknown option \`${option}\` of createConsole()`);
  const { authorize, path, hosts, traceUrl, maxViewers = DEFAULTS.maxViewers } = options;
  if (typeof authorize !== "function")
    throw new ArgumentError(
      `Expected \`authorize\` to be a function that returns the name of the user, or null, got ${got(authorize)}. ` +
        "Behind a proxy every request looks local, so that the app has to say who may see its locks.",
    );
  for (const option of ["audit", "health"] as const)
    if (options[option] !== undefined && typeof options[option] !== "function")
      throw new ArgumentError(`Expected \`${option}\` to be a function, got ${got(options[option])}`);
  if (path !== undefined && (typeof path !== "string" || !/^(?:\/[^/?#]+)*$/.test(path)))
    throw new ArgumentError(`Expected \`path\` to be a path such as "/admin/locks", got ${got(path)}`);
  if (hosts !== undefined && !(Array.isArray(hosts) && hosts.every((host) => typeof host === "string" && host !== "")))
    throw new ArgumentError(`Expected \`hosts\` to be a list of host names, got ${got(hosts)}`);
  if (traceUrl !== undefined && !isTraceUrl(traceUrl))
    throw new ArgumentError(
      `Expected \`traceUrl\` to be an address such as "https://traces.example/trace/{traceId}", got ${got(traceUrl)}`,
    );
  if (!Number.isInteger(maxViewers) || maxViewers < 1 || maxViewers > VIEWERS_MAX)
    throw new ArgumentError(`Expected \`maxViewers\` to be a number from 1 to ${VIEWERS_MAX}, got ${got(maxViewers)}`);
  const { allowRelease = false, title = "", clock = systemClock } = options;
  if (typeof allowRelease !== "boolean")
    throw new ArgumentError(`Expected \`allowRelease\` to be true or false, got ${got(allowRelease)}`);
  return { ...options, allowRelease, title: String(title), maxViewers, clock };
}

/** Only addresses of the web: what it is put into is a link. */
function isTraceUrl(text: unknown): boolean {
  return typeof text === "string" && /^https?:\/\/[^\s]+$/.test(text) && text.includes("{traceId}");
}
