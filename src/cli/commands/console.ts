/** `holdfast console`: the page of all locks, on this machine only, for who has the token that is printed. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { withLogin } from "../../console/create.ts";
import { cookieName, Login } from "../../console/login.ts";
import type { AuditEntry, StoreHealth } from "../../console/options.ts";
import { printable, toPrintableJson } from "../../contract/foreign.ts";
import { maskSecrets } from "../../contract/mask-secrets.ts";
import { backendOf } from "../../backends/all.ts";
import type { Command } from "../command.ts";
import { EXAMINERS } from "../doctor/doctor.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { type OpenStore, operator, withLocks } from "../open-store.ts";
import { Signals } from "../signals.ts";
import { UsageError } from "../usage-error.ts";

const DEFAULT_PORT = 8437;
/** The names of this machine for itself. Any other name may be that of a page which wants to look like this one. */
const HOSTS = ["localhost", "127.0.0.1", "[::1]"];

export const consoleCommand: Command = {
  spec: {
    name: "console",
    summary: "Serve a page of all locks, live, on this machine",
    usage: ["console [--url URL] [--port N] [--allow-release] [--trace-url URL] [--json]"],
    about: [
      "Prints an address with a token; open it in a browser. It listens on the loopback address only. From another machine: ssh -L 8437:127.0.0.1:8437 HOST.",
      "It is read-only unless --allow-release is given: then leases can be ended by force, with a reason, and a line for each such action is printed.",
      "The store is asked once a second while a page is open, and not at all otherwise.",
    ],
    flags: {
      port: { value: "N", help: `where to listen; 0 takes any free port (default ${DEFAULT_PORT})` },
      "allow-release": { help: "let the page end leases by force" },
      "trace-url": { value: "URL", help: "where traces are shown, with {traceId} in it" },
    },
    examples: [
      ["holdfast console", "the locks of this machine"],
      ["holdfast console --url redis://cache:6379 --allow-release", "those of a Redis, with force release"],
      ["holdfast console --port 0 --json", "for scripts: address, port and token"],
    ],
    exits: ["ok", "usage", "backend", "signal"],
  },
  async run(io, flags) {
    const port = flags.integer("port", { min: 0, max: 65_535 }) ?? DEFAULT_PORT;
    const traceUrl = flags.text("trace-url");
    if (traceUrl !== undefined && !/^https?:\/\/\S*\{traceId\}/.test(traceUrl))
      throw new UsageError("--trace-url is an address such as https://traces.example/trace/{traceId}", "console");
    const signals = new Signals();
    try {
      return await withLocks(io, flags, (store) => serve(io, store, { port, traceUrl, ...modes(flags) }, signals), {
        stop: signals.stop.signal,
      });
    } catch (error) {
      if (signals.exitCode === undefined) throw error;
      return signals.exitCode;
    } finally {
      signals.dispose();
    }
  },
};

interface ServeOptions {
  readonly port: number;
  readonly traceUrl: string | undefined;
  readonly allowRelease: boolean;
  readonly json: boolean;
}

function modes(flags: { has(name: string): boolean }): Pick<ServeOptions, "allowRelease" | "json"> {
  return { allowRelease: flags.has("allow-release"), json: flags.has("json") };
}

async function serve(io: Io, store: OpenStore, options: ServeOptions, signals: Signals): Promise<number> {
  const server = createServer();
  await listening(server, options.port);
  const { port } = server.address() as AddressInfo;
  const login = new Login(cookieName(hostname(), port));
  const who = operator(hostname());
  const page = withLogin(
    store.locks,
    {
      // The login says who may; all who have its token are the user who started this.
      authorize: () => who,
      allowRelease: options.allowRelease,
      hosts: HOSTS,
      title: maskSecrets(store.url),
      traceUrl: options.traceUrl,
      audit: (entry) => io.note(options.json ? toPrintableJson({ audit: entry }) : auditLine(entry)),
      health: () => examined(store),
    },
    login,
  );
  server.on("request", page);
  const url = `http://127.0.0.1:${port}/#token=${login.token}`;
  if (options.json) io.json({ url, port, token: login.token, allowRelease: options.allowRelease });
  else {
    io.print(url);
    io.note(`holdfast: serving ${io.mask(store.url)}${options.allowRelease ? "" : ", read-only"}; Ctrl-C ends it`);
  }
  try {
    await stopped(signals.stop.signal);
  } finally {
    page.close();
    server.close();
    server.closeAllConnections();
  }
  return signals.exitCode ?? EXIT.ok;
}

/** Loopback only: behind a proxy, or for another machine, the console belongs into an app with its own login. */
function listening(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === "EADDRINUSE" || error.code === "EACCES";
      const message = `port ${port} cannot be used (${error.code}): choose another with --port, or any free one with --port 0`;
      reject(isTaken ? new UsageError(message, "console") : error);
    });
    server.listen(port, "127.0.0.1", () => resolve());
  });
}

function stopped(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

/** What `holdfast doctor` finds. */
async function examined({ url }: OpenStore): Promise<StoreHealth> {
  const backend = backendOf(url);
  const load = backend === undefined ? null : EXAMINERS[backend];
  if (load === null) return { findings: [] };
  const examine = await load();
  const { findings } = await examine({ url, selfTest: false, init: false, say: () => {} });
  return { findings };
}

function auditLine({ at, who, action, outcome, lock, fence, reason, why }: AuditEntry): string {
  const what = action === "login" ? "login" : `release of ${printable(lock ?? "")} (fence ${fence})`;
  const says = [who === "" ? "" : `by ${who}`, reason === undefined ? "" : `because: ${reason}`, why ?? ""];
  const rest = says.filter((text) => text !== "").map(printable);
  return [`audit ${at} ${what} ${outcome}`, ...rest].join(", ");
}
