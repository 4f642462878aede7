/** The store is away for half a minute while many processes hold many leases: what comes at it when it is back? */
import { atMost } from "../lib/bars.mjs";
import { freshName, total } from "../lib/contest.mjs";
import { withRedis } from "../lib/servers.mjs";
import { Store } from "../lib/store.mjs";
import { Crowd } from "./crowd.mjs";
import { greatest, sleep } from "./curve.mjs";

const CLIENTS = 200;
const LEASES = 50_000;
/** Longer than the outage: else all leases are lost, and what comes then is the application's. */
const TTL_MS = 60_000;
const AWAY_S = 30;
const STEADY_S = 20;
const AFTER_S = 15;
const EVERY_MS = 100;

/** What clients send, and no script calls. */
const SENT =
  /^(?:evalsha|eval|script\|load|subscribe|auth|hello|client\|.*|info|select|ping|command.*|config.*|cluster\|.*)$/;

/** The outage, and whether each process also takes a lock each second. */
const PER_SECOND = 5;
const OUTAGES = [
  { id: "hangs", name: "hangs", away: hang, perSecond: 0 },
  { id: "down", name: "is down", away: die, perSecond: 0 },
  { id: "hangs-busy", name: `hangs; ${PER_SECOND} locks a second in each process`, away: hang, perSecond: PER_SECOND },
  { id: "down-busy", name: `is down; ${PER_SECOND} locks a second in each process`, away: die, perSecond: PER_SECOND },
];

export async function storm(context) {
  // It has to come back with its leases after it was killed.
  const args = ["--appendonly", "yes", "--appendfsync", "everysec"];
  return await withRedis(
    async ({ server, port }) => {
      const crowd = await Crowd.start({ port });
      try {
        await crowd.grow(CLIENTS);
        return await stormOver(context, server, crowd);
      } finally {
        await crowd.stop();
      }
    },
    { args },
  );
}

async function stormOver(context, server, crowd) {
  const named = OUTAGES.filter(({ id }) => context.wanted({ name: id }));
  const outages = context.only !== undefined && named.length > 0 ? named : OUTAGES;
  const each = Math.ceil(LEASES / crowd.size);
  context.say(`  storm: ${crowd.size} processes take ${each} leases each`);
  const name = freshName("storm");
  await crowd.step("hold", { count: each, ttlMs: TTL_MS, own: true }, ownName(name));
  const rows = [];
  for (const outage of outages) {
    context.say(`  storm: the store ${outage.name}`);
    rows.push({
      ...outage,
      own: true,
      limit: false,
      node: true,
      ran: true,
      ...(await play(outage, server, crowd, each)),
    });
  }
  await crowd.step("drop");
  return {
    parts: [
      {
        id: "storm",
        title: `the store is away for ${AWAY_S} s; ${crowd.size} processes hold ${(each * crowd.size).toLocaleString("en")} leases, ttl ${TTL_MS / 1000} s`,
        columns: [
          "steadyPerSecond",
          "steadyPeak",
          "peakPerSecond",
          "firstSeconds",
          "steadyPercent",
          "busyPercent",
          "overMs",
          "lost",
        ],
        rows,
      },
    ],
    bars: [
      ...rows.map(({ name: of, peakPerSecond, steadyPerSecond }, at) =>
        atMost(
          `scale-storm-${at + 1}`,
          `storm, the store ${of}: the busiest 100 ms against the steady state`,
          peakPerSecond / steadyPerSecond,
          2,
        ),
      ),
      atMost("scale-storm-lost", "storm: leases lost", greatest(rows, "lost"), 0),
    ],
  };
}

/** Each process has locks of its own. */
function ownName(name) {
  return (index) => ({ name: `${name}-${index}` });
}

async function play({ away, perSecond }, server, crowd, each) {
  const seconds = STEADY_S + AWAY_S + AFTER_S;
  const work =
    perSecond === 0 ? undefined : crowd.step("pace", { own: true, perSecond, seconds }, ownName(freshName("work")));
  await sleep(5000);
  const steady = await sampled(server.port, STEADY_S - 5);
  await away(server);
  const back = await sampled(server.port, AFTER_S - 5);
  await work;
  const held = total(await crowd.step("leases"), "held");
  return {
    steadyPerSecond: meanOf(steady, "commands"),
    steadyPercent: meanOf(steady, "cpuUs") / 1e4,
    peakPerSecond: Math.max(...back.map(rate)),
    firstSeconds: meanOf(
      back.filter(({ atMs }) => atMs <= 3000),
      "commands",
    ),
    busyPercent: busiest(back),
    // A renewal is one command for many leases, so that a tenth of a second has none or some: the mean would always be exceeded.
    overMs: lastAbove(back, Math.max(...steady.map(rate))),
    lost: each * crowd.size - held,
    steadyPeak: Math.max(...steady.map(rate)),
    kinds: kindsOf(back),
    series: back.filter(({ atMs }) => atMs <= 10_000).map((one) => [Math.round(one.atMs), Math.round(rate(one))]),
  };
}

/** It is there, and does nothing: connections stay, and everything that is sent waits for it. */
async function hang(server) {
  server.pause();
  await sleep(AWAY_S * 1000);
  server.resume();
}

/** It ends, and comes back with what it had written down. */
async function die(server) {
  await server.kill();
  await sleep(AWAY_S * 1000);
  await server.restart();
}

/** What clients sent, and what it cost, in steps of about a tenth of a second. The question itself is not counted. */
async function sampled(port, seconds) {
  const store = new Store(port);
  const samples = [];
  try {
    const startMs = performance.now();
    let before = await readOf(store);
    while (performance.now() < startMs + seconds * 1000) {
      await sleep(EVERY_MS);
      const now = await readOf(store);
      samples.push({
        atMs: now.atMs - startMs,
        tookMs: now.atMs - before.atMs,
        commands: now.commands - before.commands - 1,
        cpuUs: now.cpuUs - before.cpuUs,
        kinds: kindsBetween(before.counts, now.counts),
      });
      before = now;
    }
    return samples;
  } finally {
    store.close();
  }
}

async function readOf(store) {
  const { counts, cpuUs } = await store.read();
  let commands = 0;
  for (const [kind, count] of counts) if (SENT.test(kind)) commands += count;
  return { counts, cpuUs, commands, atMs: performance.now() };
}

function kindsBetween(before, now) {
  return Object.fromEntries(
    [...now].filter(([kind]) => SENT.test(kind)).map(([kind, count]) => [kind, count - (before.get(kind) ?? 0)]),
  );
}

function rate({ commands, tookMs }) {
  return (commands * 1000) / tookMs;
}

function meanOf(samples, figure) {
  const sum = (of) => samples.reduce((all, sample) => all + sample[of], 0);
  return (sum(figure) * 1000) / sum("tookMs");
}

/** Percent of a core in the busiest second. */
function busiest(samples) {
  const seconds = new Map();
  for (const { atMs, cpuUs } of samples) {
    const second = Math.floor(atMs / 1000);
    seconds.set(second, (seconds.get(second) ?? 0) + cpuUs);
  }
  return Math.max(...seconds.values()) / 1e4;
}

/** How long after its return a tenth of a second still had more commands than that. */
function lastAbove(samples, limit) {
  return Math.max(0, ...samples.filter((sample) => rate(sample) > limit).map(({ atMs }) => atMs));
}

/** Of the first five seconds. */
function kindsOf(samples) {
  const all = {};
  for (const { kinds, atMs } of samples) {
    if (atMs > 5000) continue;
    for (const [kind, count] of Object.entries(kinds)) if (count > 0) all[kind] = (all[kind] ?? 0) + count;
  }
  return all;
}
