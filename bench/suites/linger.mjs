/** `linger`: what a cycle costs when its lock stays in the process, and what a waiter in another process pays for that, over each store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { contestants } from "../contestants/linger.mjs";
import { atLeast, atMost, find, ratio } from "../lib/bars.mjs";
import { contest, cyclesSlice, entrants, freshName, medians } from "../lib/contest.mjs";
import { CLIENT_CORE, pin, STORE_CORE } from "../lib/cores.mjs";
import { withMembers, withPostgres, withRedis } from "../lib/servers.mjs";
import { spread } from "../lib/stats.mjs";

const COLUMNS = ["perSecond", "clientCpuUs", "storeCpuUs", "storeCommands"];
const LINGERS = "holdfast, linger";
/** By then a claim queues. Where none is to queue, the same pause, so that all start from rest. */
const QUEUED_MS = 5;

/** Each starts what it needs around `use(env)`. */
const STORES = {
  redis: (use) => withRedis(({ port }) => use({ port })),
  quorum: (use) => withMembers((servers) => use({ ports: servers.map(({ port }) => port) })),
  postgres: (use) => withPostgres(({ port }) => use({ port })),
  file: inDirectory,
  memory: (use) => use({}),
};

export const linger = {
  name: "linger",
  title: "Linger: a free lock that stays in the process",
  async run(context) {
    const all = entrants("linger", contestants).filter(context.wanted);
    const parts = [];
    if (context.wantedPart("1-loop")) {
      const rows = await alone(context, all);
      parts.push({ id: "1-loop", title: "1 loop over Redis, one connection", columns: COLUMNS, rows });
    }
    for (const store of Object.keys(STORES).filter(context.wantedPart)) {
      const rows = await served(context, all, store);
      parts.push({
        id: store,
        title: `a waiter in another process, ${store}: from the release, or with \`linger\` from its own call, to its entry`,
        columns: ["handOverMs", "handOvers"],
        rows,
      });
    }
    return { parts, bars: parts.flatMap(barsOf) };
  },
};

async function alone(context, all) {
  return await withRedis(async ({ server, port, store }) => {
    pin(server.pid, STORE_CORE);
    return await contest({
      context,
      part: "linger, 1 loop",
      entrants: all,
      env: { store: "redis", port, linger: "50ms" },
      core: CLIENT_CORE,
      slice: (team, { sends }, round) =>
        cyclesSlice(team, { loops: 1, seconds: context.seconds * (round < 0 ? 4 : 1) }, store, sends),
      sum: medians,
    });
  });
}

async function served(context, all, store) {
  const isOne = store === "memory";
  return await STORES[store]((env) =>
    contest({
      context,
      part: `linger, a remote waiter, ${store}`,
      entrants: all.filter(({ limit }) => limit !== true),
      processes: isOne ? 1 : 2,
      // Longer than it takes to give the next order, so that no lock is free before it is asked for.
      env: { ...env, store, linger: "2s" },
      slice: (team, { name }) =>
        isOne
          ? stepSlice(team, name === LINGERS, context.seconds)
          : servedSlice(team, name === LINGERS, context.seconds),
      sum: medians,
    }),
  );
}

async function inDirectory(use) {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  try {
    return await use({ dir });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A waiter can be served when the lock is released; where it lingers, when the waiter asks for it. */
async function servedSlice(team, lingers, seconds) {
  const tookMs = [];
  // One lock: what its first queue costs is no part of either.
  const name = freshName("served");
  const untilMs = performance.now() + seconds * 1000;
  while (performance.now() < untilMs) {
    await team.orderOne(0, { do: "take", name, release: lingers });
    const ask = () => team.orderOne(1, { do: "take", name, release: true });
    if (lingers) {
      await sleep(QUEUED_MS);
      tookMs.push((await ask()).tookMs);
    } else {
      const served = ask();
      await sleep(QUEUED_MS);
      const { leftMs } = await team.orderOne(0, { do: "letGo" });
      tookMs.push((await served).enteredMs - leftMs);
    }
  }
  return { handOverMs: spread(tookMs), handOvers: tookMs.length };
}

/** Both are in one process. */
async function stepSlice(team, lingers, seconds) {
  const order = { do: "step", step: "served", name: freshName("served"), seconds, lingers, queuedMs: QUEUED_MS };
  const [figures] = await team.order(order);
  return figures;
}

function barsOf({ id, rows }) {
  const own = find(rows, LINGERS);
  if (id !== "1-loop") {
    const without = find(rows, "holdfast")?.handOverMs.p50;
    const text = `${id}: p50 of a remote waiter against a hand-over without \`linger\``;
    return [atMost(`linger-waiter-${id}`, text, ratio(own?.handOverMs.p50, without), 2)];
  }
  const raw = find(rows, "raw ioredis");
  const speed = "1 loop: cycles per second against the raw client";
  const commands = "1 loop: commands per cycle against the raw client";
  return [
    atLeast("linger-speed", speed, ratio(own?.perSecond, raw?.perSecond), 15),
    atMost("linger-commands", commands, ratio(own?.storeCommands, raw?.storeCommands), 0.01),
  ];
}
