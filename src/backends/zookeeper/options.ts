/** zookeeper(): a backend from options, checked at the door. */
import type { ConnectionOptions } from "node:tls";
import { ArgumentError } from "../../contract/argument-error.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";
import { ZooKeeperBackend } from "./backend.ts";
import { type AclChoice, toAcls } from "./client/acl.ts";
import { ZooKeeperClient } from "./client/client.ts";
import { parseServers, showServer } from "./client/servers.ts";
import { asPaths, type Dialect, escapedBelow, NODE_NAMING } from "./paths.ts";

export interface ZooKeeperOptions {
  /** `"zk1:2181,zk2:2181,zk3:2181"`, `"[::1]:2181"`. The port is 2181 by default. */
  readonly servers: string;
  /** All paths are below this one. @default "" */
  readonly chroot?: string | undefined;
  /**
   * How long the ensemble keeps the locks of a dead process. A lease is trusted for three quarters of what the ensemble
   * gives. @default "40s"
   */
  readonly session?: Duration | undefined;
  /** The lock's nodes are at `<base>/<name>`, with the name escaped where it must be. @default "/holdfast" */
  readonly base?: string | undefined;
  /** `paths`: a lock's name is its path, such as "/locks/invoice-42"; `base` is ignored. @default "escaped" */
  readonly names?: "escaped" | "paths" | undefined;
  /** Which library's recipes share the locks. @default "curator" */
  readonly dialect?: Dialect | ((name: string) => Dialect) | undefined;
  /** Digest authentication. */
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /**
   * Which clients may touch our nodes. `open`: all that reach the ensemble may end, forge and read our locks. `creator`: only
   * clients that are authenticated as we are (`auth`, or a client certificate). Or a list of rights. @default "open"
   */
  readonly acl?: AclChoice | undefined;
  /** Encrypts, with these options of `tls.connect()`; `true`: with Node's defaults. @default false */
  readonly tls?: ConnectionOptions | boolean | undefined;
}

const DEFAULTS = { session: "40s", base: "/holdfast", names: "escaped", dialect: "curator" } as const;

/** Makes a backend with a session of its own, and begins to connect. Close it with the locks that use it. */
export function zookeeper(options: ZooKeeperOptions): ZooKeeperBackend {
  const servers = parseServers(options.servers).map(showServer).join(",");
  const base = options.base ?? DEFAULTS.base;
  if (!/^\/$|^(?:\/[^/]+)+$/.test(base)) {
    throw new ArgumentError(`Expected \`base\` to be a path such as "/locks", got ${JSON.stringify(base)}`);
  }
  const names = oneOf(options.names ?? DEFAULTS.names, "names", ["escaped", "paths"]);
  const { dialect = DEFAULTS.dialect } = options;
  const client: ZooKeeperClient = new ZooKeeperClient({
    servers: options.servers,
    chroot: options.chroot,
    timeoutMs: toMs(options.session ?? DEFAULTS.session, "session", { maxMs: MAX_TTL_MS }),
    tls: options.tls,
    auth: options.auth,
    acl: checkAcl(options),
    listener: {
      connected: (isNew) => backend.connected(isNew),
      expired: () => backend.expired(),
    },
  });
  const backend: ZooKeeperBackend = new ZooKeeperBackend({
    client,
    servers,
    paths: names === "paths" ? asPaths : escapedBelow(base),
    dialect: typeof dialect === "function" ? (name) => checkDialect(dialect(name)) : constant(checkDialect(dialect)),
  });
  return backend;
}

function constant(dialect: Dialect): () => Dialect {
  return () => dialect;
}

function checkDialect(dialect: Dialect): Dialect {
  return oneOf(dialect, "dialect", Object.keys(NODE_NAMING) as Dialect[]);
}

function checkAcl({ acl = "open", auth, tls }: ZooKeeperOptions): AclChoice {
  const isAnonymous = auth === undefined && (tls === undefined || tls === false);
  if (!isAnonymous || !toAcls(acl).some(({ scheme }) => scheme === "auth")) return acl;
  throw new ArgumentError(
    "Expected `auth`, or `tls` with a certificate, where `acl` gives rights to the creator, because this client is anonymous",
  );
}

function oneOf<T extends string>(value: T, option: string, choices: readonly T[]): T {
  if (choices.includes(value)) return value;
  const list = choices.map((choice) => JSON.stringify(choice)).join(", ");
  throw new ArgumentError(`Expected \`${option}\` to be one of ${list}, got ${JSON.stringify(value)}`);
}
