/** etcd(): a backend from options, checked at the door. */
import type { ConnectionOptions } from "node:tls";
import { ArgumentError } from "../../contract/argument-error.ts";
import { EtcdBackend } from "./backend.ts";
import { EtcdClient } from "./client/client.ts";
import { parseEndpoints } from "./client/endpoints.ts";
import { asPaths, escapedBelow } from "./keys.ts";

export interface EtcdOptions {
  /** `"etcd1:2379,etcd2:2379,etcd3:2379"`, `"[::1]:2379"`. The port is 2379 by default. All of one cluster. */
  readonly endpoints: string;
  /** The lock's keys are at `<base>/<name>`, with "/" and "%" in the name escaped. @default "/holdfast" */
  readonly base?: string | undefined;
  /** `paths`: a lock's name is what its keys begin with, as it is to `etcdctl lock`. @default "escaped" */
  readonly names?: "escaped" | "paths" | undefined;
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /** Encrypts, with these options of `tls.connect()`; `true`: with Node's defaults. @default false */
  readonly tls?: ConnectionOptions | boolean | undefined;
}

const OPEN = new URL("./open.js", import.meta.url).href;
const DEFAULTS = { base: "/holdfast", names: "escaped" } as const;

/** Makes a backend with a connection of its own, and begins to connect. Close it with the locks that use it. */
export function etcd(options: EtcdOptions): EtcdBackend {
  return openEtcd(options, false);
}

/** @internal `finds`: it renews claims that another thread took. */
export function openEtcd(options: EtcdOptions, finds: boolean): EtcdBackend {
  const { base = DEFAULTS.base, names = DEFAULTS.names, auth } = options;
  if (typeof options.endpoints !== "string") {
    throw new ArgumentError('Expected `endpoints` to be a list such as "etcd1:2379,etcd2:2379"');
  }
  parseEndpoints(options.endpoints);
  if (!/^(?:[^/%]+)?(?:\/[^/%]+)*$/.test(base) || base === "") {
    throw new ArgumentError(`Expected \`base\` to be a prefix such as "/locks", got ${JSON.stringify(base)}`);
  }
  if (names !== "escaped" && names !== "paths") {
    throw new ArgumentError(`Expected \`names\` to be "escaped" or "paths", got ${JSON.stringify(names)}`);
  }
  if (auth !== undefined && (typeof auth.user !== "string" || typeof auth.password !== "string")) {
    throw new ArgumentError("Expected `auth` to have a user and a password");
  }
  const client = new EtcdClient({
    endpoints: options.endpoints,
    tls: options.tls,
    auth,
    connected: (isFirst) => backend.connected(isFirst),
  });
  const backend: EtcdBackend = new EtcdBackend({
    client,
    keys: names === "paths" ? asPaths(base) : escapedBelow(base),
    renewer: renewerOf(options),
    finds,
  });
  return backend;
}

/** A worker thread opens its own connection. Options with functions in them cannot be sent to it. */
function renewerOf(options: EtcdOptions): EtcdBackend["renewer"] {
  try {
    return { module: OPEN, data: structuredClone(options) };
  } catch {
    return undefined;
  }
}
