// What etcd itself does, without any lock: a leader is stopped, another is elected, and the first wakes up. Which leases that
// were kept alive all the time are gone? (docs/backends/etcd.md, "What it cannot do")
import { setTimeout as sleep } from "node:timers/promises";
import { newerEtcd, VERSIONS, withPath } from "./newer-etcd.mjs";

const LEASES = 30;
/** In seconds: that of the soak, and what a lock with a lockDelay of five seconds takes. */
const SHORT = 2;
const LONG = 7;
const KEEP_ALIVE_MS = 250;
const ANSWER_MS = 1500;

export async function judgeStoppedLeader({ seconds, say }) {
  const rows = [];
  const refusals = [];
  for (const version of ["Debian's", ...VERSIONS]) {
    const { bin, refusal } = version === "Debian's" ? {} : await newerEtcd(version, say);
    if (refusal !== undefined) {
      refusals.push(refusal);
      continue;
    }
    say(`etcd ${version}: ${seconds} s …`);
    rows.push(await withPath(bin, () => countRounds(seconds)));
  }
  return { rows, findings: [], refusals };
}

async function countRounds(seconds) {
  const { startEtcd } = await import("../build/lab/servers/etcd.js");
  const { EtcdClient } = await import("../dist/backends/etcd/index.js");
  const lab = await startEtcd({ members: 3 });
  const counts = { rounds: 0, short: 0, long: 0 };
  let version;
  try {
    const untilMs = performance.now() + seconds * 1000;
    while (performance.now() < untilMs) {
      const leader = await lab.leader();
      const others = lab.servers.filter(({ id }) => id !== leader.id);
      const client = new EtcdClient({ endpoints: others.map(({ port }) => `127.0.0.1:${port}`).join(",") });
      try {
        ({ version } = await client.status());
        const gone = await stopOnce(client, leader);
        counts.rounds++;
        counts.short += gone.short ? 1 : 0;
        counts.long += gone.long ? 1 : 0;
      } finally {
        await client.close();
      }
    }
  } finally {
    await lab.stop();
  }
  return {
    etcd: version,
    "leader stopped": `${counts.rounds} times`,
    [`leases of ${SHORT} s revoked`]: `${counts.short} times`,
    [`leases of ${LONG} s revoked`]: `${counts.long} times`,
  };
}

/** Were leases revoked less than their time after a keep-alive of theirs had been answered? */
async function stopOnce(client, leader) {
  const leases = [];
  for (let i = 0; i < LEASES; i++) {
    const ttl = i % 2 === 0 ? SHORT : LONG;
    leases.push({ ttl, id: (await client.grantLease(ttl)).id, keptMs: performance.now() });
  }
  let isOn = true;
  const keeping = (async () => {
    while (isOn) {
      await Promise.all(leases.map((lease) => keep(client, lease)));
      await sleep(KEEP_ALIVE_MS);
    }
  })();
  await sleep(2 * KEEP_ALIVE_MS);
  leader.pause();
  // Longer than the short leases, shorter than the long ones.
  await sleep(SHORT * 1000 + 600 + Math.random() * 1500);
  leader.resume();
  await sleep(1000);
  const gone = { short: false, long: false };
  for (const { id, ttl, keptMs } of leases) {
    const atMs = performance.now();
    const left = await client.timeToLive(id).catch(() => undefined);
    if (left !== undefined && left.grantedTtl <= 0 && atMs - keptMs < ttl * 1000 - 100)
      gone[ttl === SHORT ? "short" : "long"] = true;
  }
  isOn = false;
  await keeping;
  return gone;
}

async function keep(client, lease) {
  const sentMs = performance.now();
  try {
    if ((await client.keepAlive(lease.id, ANSWER_MS)).ttl > 0) lease.keptMs = sentMs;
  } catch {
    // No leader at the moment: it is asked again.
  }
}
