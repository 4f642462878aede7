/** A ZooKeeper ensemble: who leads, who follows, and how long a session the servers will give. */
import { connect } from "node:net";

import { LockBackendError } from "../../contract/errors.ts";
import { ZooKeeperClient } from "../../backends/zookeeper/index.ts";
import { parseServers, type Server, showServer } from "../../backends/zookeeper/client/servers.ts";
import { parseUrl } from "../../backends/zookeeper/open.ts";
import { toMs } from "../../contract/duration.ts";
import type { Examine, Finding } from "./report.ts";

const ANSWER_MS = 5000;

interface Examined {
  readonly label: string;
  /** What the server reports; absent when it does not answer, which may be its configuration. */
  readonly mode: string | undefined;
  readonly version: string | undefined;
}

export const examineZooKeeper: Examine = async ({ url }) => {
  const options = parseUrl(url);
  const wantedMs = toMs(options.session ?? "40s", "session");
  const servers = parseServers(options.servers);
  const [seen, givenMs] = await Promise.all([
    options.tls === undefined ? Promise.all(servers.map(examine)) : [],
    negotiate(options, wantedMs),
  ]);
  return {
    backend: "zookeeper",
    facts: {
      ...Object.fromEntries(
        seen.map(({ label, mode, version }) => [label, `${mode ?? "no answer"} ${version ?? ""}`.trim()]),
      ),
      "session asked": `${wantedMs} ms`,
      "session given": `${givenMs} ms`,
    },
    findings: [...ensemble(seen, servers.length, options.tls !== undefined), session(wantedMs, givenMs)],
    promises: [
      "one holder at a time, kept by the ensemble's consensus",
      "fences that always rise (czxid)",
      "first come, first served; a dead holder is replaced when its session is over",
    ],
    limits: [
      "anything while no majority of the ensemble is up",
      "mutual exclusion for a holder that is paused longer than its session: guard what you protect with the fence",
    ],
  };
};

function ensemble(seen: readonly Examined[], servers: number, tls: boolean): readonly Finding[] {
  const check = "ensemble";
  if (tls) return [{ level: "unknown", check, text: "with TLS the servers' modes are not read" }];
  const modes = seen.map(({ mode }) => mode);
  const silent = seen.filter(({ mode }) => mode === undefined).map(({ label }) => label);
  const findings: Finding[] = [];
  if (modes.includes("standalone")) {
    findings.push({ level: "weak", check, text: "a standalone server: when it is down, so are all locks" });
  } else if (modes.includes("leader")) {
    findings.push({
      level: "good",
      check,
      text: `an ensemble with a leader and ${modes.filter((mode) => mode === "follower").length} followers`,
    });
  } else {
    findings.push({ level: "unknown", check, text: "none of the named servers is the leader" });
  }
  if (silent.length > 0) {
    const text = `${silent.join(", ")} did not answer: down, or \`srvr\` is not in 4lw.commands.whitelist`;
    findings.push({ level: "weak", check: "servers", text });
  }
  if (servers === 1 && !modes.includes("standalone")) {
    findings.push({ level: "weak", check: "servers", text: "name all servers in the URL, so one may be down" });
  }
  return findings;
}

function session(wantedMs: number, givenMs: number): Finding {
  const check = "session";
  if (wantedMs === givenMs)
    return { level: "good", check, text: `the servers give the session asked for, ${givenMs} ms` };
  const limit = givenMs > wantedMs ? "minSessionTimeout" : "maxSessionTimeout";
  return { level: "weak", check, text: `asked for ${wantedMs} ms, the servers give ${givenMs} ms (${limit})` };
}

async function negotiate(options: ReturnType<typeof parseUrl>, wantedMs: number): Promise<number> {
  const { servers, chroot, tls, auth } = options;
  const listener = { connected: () => {}, expired: () => {} };
  const client = new ZooKeeperClient({ servers, chroot, tls, auth, timeoutMs: wantedMs, listener });
  try {
    const endMs = performance.now() + ANSWER_MS;
    while (!client.isConnected) {
      if (performance.now() > endMs) {
        throw new LockBackendError(
          "zookeeper",
          "",
          `No server of ${servers} answered within ${ANSWER_MS / 1000} seconds.`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return client.timeoutMs;
  } finally {
    await client.close();
  }
}

/** `srvr`, the one command that servers answer by default. */
async function examine(server: Server): Promise<Examined> {
  const text = await new Promise<string>((resolve) => {
    let received = "";
    const socket = connect({ host: server.host, port: server.port }, () => socket.write("srvr\n"));
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      if (received.length > 10_000) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(received));
  });
  return {
    label: showServer(server),
    mode: /^Mode: (\w+)$/m.exec(text)?.[1],
    version: /^Zookeeper version: ([^\s,-]+)/im.exec(text)?.[1],
  };
}
