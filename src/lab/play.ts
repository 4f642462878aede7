/** Puts a scenario on stage: starts the clients, follows the steps, and hands back what happened. */
import { setTimeout as sleep } from "node:timers/promises";
import { startClient } from "./clients/client.ts";
import type { Library } from "./libraries/library.ts";
import { machineMs } from "../contract/machine-clock.ts";
import { History } from "./events.ts";
import { startProtectedCounter } from "./protected-counter.ts";
import type { ProtectedCounter } from "./protected-counter.ts";
import { startProxy } from "./proxy.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import { TTL_MS } from "./scenarios/scenario.ts";
import { makeWallClock } from "./servers/wall-clock.ts";
import type { Observer, Stage } from "./stage.ts";
import type { Actor, PlayResult, Surprise } from "./play-types.ts";
import { follow } from "./steps.ts";

const LOCK = "lab:account";
const LOOK_MS = 20;

/** Plays the scenario on the stage with clients of one library, and leaves the stage as it was found. */
export async function play(scenario: Scenario, stage: Stage, library: Library = "holdfast"): Promise<PlayResult> {
  const history = new History();
  const counter = await startProtectedCounter(LOCK, history);
  const actors = new Map<string, Actor>();
  const surprises: Surprise[] = [];
  const observers = library === "holdfast" ? await stage.observe() : [];
  const watch = watchTruth(observers, history);
  try {
    for (const who of whoPlays(scenario)) actors.set(who, await enter(who, scenario, stage, library, counter, history));
    await follow({ scenario, stage, history, actors, surprises });
    const endMs = machineMs();
    await leave(actors, stage);
    const leaks = library === "holdfast" ? await findLeaks(stage, observers, scenario) : [];
    return {
      scenario,
      stage: { backend: stage.backend, observers: observers.map(({ lane }) => lane) },
      library,
      ttlMs: scenario.ttlMs ?? TTL_MS,
      events: history.events.filter(({ atMs }) => atMs <= endMs),
      startMs: history.events.find(({ kind }) => kind !== "truth")?.atMs ?? history.startMs,
      endMs,
      surprises,
      leaks,
      values: { plain: counter.value("plain"), guarded: counter.value("guarded") },
    };
  } finally {
    watch.stop();
    await Promise.all([...actors.values()].map(dismiss));
    await Promise.all(observers.map((observer) => observer.close()));
    await counter.stop();
  }
}

function whoPlays(scenario: Scenario): readonly string[] {
  const names = scenario.steps.flatMap((step) => ("who" in step ? [step.who] : []));
  return [...new Set(names)].toSorted();
}

async function enter(
  who: string,
  scenario: Scenario,
  stage: Stage,
  library: Library,
  counter: ProtectedCounter,
  history: History,
): Promise<Actor> {
  const link = await stage.link(who);
  const counterProxy = await startProxy(counter);
  const shifted = scenario.steps.some((step) => step.do === "client clock" && step.who === who);
  const wallClock = shifted ? await makeWallClock() : undefined;
  const counterUrl = `http://${counterProxy.host}:${counterProxy.port}`;
  const { url, ports } = link;
  const setup = { client: who, lock: LOCK, library, link: { url, ports }, counterUrl };
  const client = await startClient({ ...setup, env: wallClock?.env }, history);
  return { client, link, counterProxy, wallClock, later: Promise.resolve() };
}

/** Heals everything first, so clients can close properly: what they leave behind then is a leak. */
async function leave(actors: ReadonlyMap<string, Actor>, stage: Stage): Promise<void> {
  for (const server of stage.servers) server.resume?.();
  for (const { link, counterProxy } of actors.values()) {
    await Promise.all([...link.proxies, counterProxy].map((proxy) => proxy.heal()));
  }
  await Promise.all([...actors.values()].map(({ client }) => client.stop()));
}

async function dismiss(actor: Actor): Promise<void> {
  await actor.client.kill();
  await actor.counterProxy.stop();
  actor.wallClock?.stop();
}

/** Notes whenever the holders in a store change. */
function watchTruth(observers: readonly Observer[], history: History): { stop(): void } {
  let stopped = false;
  const look = async (observer: Observer): Promise<void> => {
    let last: string | undefined;
    while (!stopped) {
      const snapshot = await observer.look(LOCK).catch(() => undefined);
      const holders = snapshot?.held.map(({ holder }) => holder) ?? [];
      const seen = snapshot === undefined ? "away" : holders.join();
      if (seen !== last && !stopped) {
        const away = snapshot === undefined ? { away: true } : {};
        // What an answer says was so at the latest when it came. When the question left, a lease may have been there yet.
        history.add(observer.lane, { kind: "truth", holders, ...away }, machineMs());
      }
      last = seen;
      await sleep(LOOK_MS);
    }
  };
  for (const observer of observers) void look(observer);
  return { stop: () => void (stopped = true) };
}

/** What a killed client left ends by itself: after that nothing may be left. */
async function findLeaks(stage: Stage, observers: readonly Observer[], scenario: Scenario): Promise<readonly string[]> {
  const deadlineMs = machineMs() + 3 * (scenario.ttlMs ?? TTL_MS) + 3000;
  for (;;) {
    const snapshots = await Promise.all(observers.map((observer) => observer.look(LOCK).catch(() => undefined)));
    const left = snapshots.flatMap((snapshot) => [
      ...(snapshot?.held ?? []).map(({ holder }) => `a lease of ${holder}`),
      ...(snapshot?.pending ?? []).map(({ holder }) => `a waiting claim of ${holder}`),
    ]);
    if (left.length === 0) break;
    if (machineMs() > deadlineMs) return left;
    await sleep(100);
  }
  return stage.leaks();
}
