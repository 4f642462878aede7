/** Follows a scenario's steps, one after the other. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Terms } from "./libraries/library.ts";
import { systemClock } from "../contract/clock.ts";
import { machineMs } from "../contract/machine-clock.ts";
import { within } from "../contract/time-limit.ts";
import type { FaultSign } from "./events.ts";
import type { Actor, Play } from "./play-types.ts";
import type { Proxy } from "./proxy.ts";
import type { NetworkFault, ServerFault, Step } from "./scenarios/scenario.ts";
import { TTL_MS } from "./scenarios/scenario.ts";
import type { StageServer } from "./stage.ts";

/** No step waits longer than this: the play ends with a surprise instead of hanging. */
const STEP_LIMIT_MS = 60_000;
/** A holder that cannot renew must know long before this. */
const LOST_AFTER_TTLS = 5;

export async function follow(play: Play): Promise<void> {
  for (const [i, step] of play.scenario.steps.entries()) {
    try {
      const done = await within(
        systemClock,
        take(play, step).then(() => true),
        STEP_LIMIT_MS,
      );
      if (done === undefined) throw new Error(`step ${i + 1} (${describe(step)}) took too long`);
    } catch (error) {
      play.surprises.push({ about: "error", text: error instanceof Error ? error.message : String(error) });
      return;
    }
  }
}

async function take(play: Play, step: Step): Promise<void> {
  if ("who" in step && step.do !== "network" && step.do !== "client clock") {
    return act(play, actorOf(play, step.who), step);
  }
  switch (step.do) {
    case "sleep":
      return sleep(step.ms);
    case "server":
      return faultServers(play, step.fault, step.of);
    case "cut replication":
      play.history.add(play.stage.servers[0]?.name ?? "primary", fault("cut", "replication is cut"));
      return play.stage.cutReplication?.();
    case "network":
      return faultNetwork(play, actorOf(play, step.who), step.who, step.fault, step.of);
    case "client clock":
      play.history.add(step.who, fault("jump", `wall clock ${signed(step.jumpMs)}`));
      return actorOf(play, step.who).wallClock?.jump(step.jumpMs);
  }
}

type ActorStep = Exclude<Step, { do: "sleep" | "server" | "cut replication" | "network" | "client clock" }>;

async function act(play: Play, actor: Actor, step: ActorStep): Promise<void> {
  const { client } = actor;
  switch (step.do) {
    case "acquire":
      return inBackground(actor, step.later, async () => {
        const granted = (await client.tell({ do: "acquire", terms: termsOf(play, step) })) === true;
        expect(play, step, step.granted ?? granted, granted, granted ? "granted" : "not granted");
      });
    case "section":
      return inBackground(actor, step.later, () => section(play, actor, step));
    case "settle":
      return void (await actor.later);
    case "write":
      // A client that is killed while its write is under way does not hear the answer.
      return inBackground(actor, step.later, async () => void (await client.tell({ do: "write" })));
    case "check": {
      const held = await client.tell({ do: "check" });
      if (held !== undefined) expect(play, step, step.held, held === true, held === true ? "held" : "not held");
      return;
    }
    case "release": {
      const result = String(await client.tell({ do: "release" }));
      return expect(play, step, step.result ?? result, result, result);
    }
    case "until lost":
      return untilLost(play, actor, step);
    case "block":
      play.history.add(step.who, fault("block", `event loop blocked for ${step.ms} ms`));
      return inBackground(actor, step.later, async () => {
        await client.tell({ do: "block", ms: step.ms });
        play.history.add(step.who, fault("resume", "event loop runs again"));
      });
    case "pause":
      play.history.add(step.who, fault("pause", "process stopped"));
      return client.pause();
    case "resume":
      play.history.add(step.who, fault("resume", "process continues"));
      return client.resume();
    case "kill":
      play.history.add(step.who, fault("kill", "process killed"));
      return client.kill();
    case "hold writes":
      play.history.add(step.who, fault("delay", "writes hang in the network"));
      return actor.counterProxy.hang("requests");
    case "deliver writes":
      play.history.add(step.who, fault("heal", "its writes arrive"));
      return actor.counterProxy.heal();
    case "until writes hang":
      // One connection for each register.
      return until(() => actor.counterProxy.holding >= 2);
    case "until written":
      return until(() => writesOf(play, step.who) >= 2);
    case "read":
      return void (await client.tell({ do: "read" }));
  }
}

/** The step's own time limit ends this. */
async function until(check: () => boolean): Promise<void> {
  const deadlineMs = machineMs() + STEP_LIMIT_MS;
  while (!check() && machineMs() < deadlineMs) await sleep(10);
}

function writesOf(play: Play, who: string): number {
  return play.history.events.filter((event) => event.kind === "write" && event.by === who).length;
}

async function inBackground(actor: Actor, later: boolean | undefined, work: () => Promise<void>): Promise<void> {
  actor.later = actor.later.then(work);
  if (later === true) actor.later.catch(() => undefined);
  else await actor.later;
}

async function section(play: Play, { client }: Actor, step: Step & { do: "section" }): Promise<void> {
  const granted = (await client.tell({ do: "acquire", terms: termsOf(play, step) })) === true;
  expect(play, step, true, granted, granted ? "granted" : "not granted");
  if (!granted) return;
  await client.tell({ do: "read" });
  await client.tell({ do: "write" });
  await client.tell({ do: "release" });
}

/** Who must get the lock waits a while for a slow machine, unless the step says how long; who must not tries once. */
function termsOf({ scenario }: Play, step: Partial<Terms> & { readonly granted?: boolean }): Terms {
  const { lockDelayMs, maxHoldMs, renew } = step;
  const waitMs = step.waitMs ?? (step.granted === false ? 0 : 5 * TTL_MS);
  return { ttlMs: scenario.ttlMs ?? TTL_MS, waitMs, lockDelayMs, maxHoldMs, renew };
}

function expect(play: Play, step: Step & { who: string }, wanted: unknown, got: unknown, words: string): void {
  if (wanted === got) return;
  const about =
    step.do === "release" ? "release" : step.do === "check" || step.do === "until lost" ? "check" : "acquire";
  play.surprises.push({ about, text: `${describe(step)}: ${words}, against what was promised (${String(wanted)})` });
}

/** Waits until the client reports, or answers when asked, that its lock is lost. */
async function untilLost(play: Play, { client }: Actor, step: Step & { do: "until lost" }): Promise<void> {
  const ttlMs = play.scenario.ttlMs ?? TTL_MS;
  const deadlineMs = machineMs() + LOST_AFTER_TTLS * ttlMs;
  while (machineMs() < deadlineMs) {
    if (play.history.events.some((event) => event.lane === step.who && event.kind === "lost")) return;
    if ((await client.tell({ do: "peek" })) === false) return;
    await sleep(20);
  }
  expect(play, step, "lost", "held", `still believed after ${LOST_AFTER_TTLS} ttl`);
}

async function faultServers(play: Play, what: ServerFault, of: readonly number[] | undefined): Promise<void> {
  const chosen = play.stage.servers.filter((_, i) => of === undefined || of.includes(i));
  await Promise.all(
    chosen.map((server) => {
      play.history.add(server.name, fault(...signOf(what)));
      return applyTo(server, what);
    }),
  );
}

function signOf(what: ServerFault): [FaultSign, string] {
  if (typeof what !== "string") return ["jump", `clock ${signed(what.jumpMs)}`];
  const signs = {
    pause: ["pause", "stopped"],
    resume: ["resume", "continues"],
    kill: ["kill", "killed"],
    restart: ["restart", "restarted"],
    flush: ["lose", "emptied"],
  } as const;
  return [...signs[what]];
}

async function applyTo(server: StageServer, what: ServerFault): Promise<void> {
  if (typeof what !== "string") return server.jump?.(what.jumpMs);
  await server[what]?.();
}

async function faultNetwork(
  play: Play,
  actor: Actor,
  who: string,
  what: NetworkFault,
  of: readonly number[] | undefined,
): Promise<void> {
  const proxies = actor.link.proxies.filter((_, i) => of === undefined || of.includes(i));
  const where = of === undefined ? "" : ` (${of.map((i) => play.stage.servers[i]?.name).join(", ")})`;
  const sign: FaultSign =
    what === "heal" ? "heal" : what.startsWith("lose") ? "lose" : what === "cut" ? "cut" : "delay";
  play.history.add(who, fault(sign, `network: ${what}${where}`));
  for (const proxy of proxies) await NETWORK[what](proxy);
}

const NETWORK: Readonly<Record<NetworkFault, (proxy: Proxy) => void | Promise<void>>> = {
  cut: (proxy) => proxy.cut(),
  hang: (proxy) => proxy.hang(),
  "hang replies": (proxy) => proxy.hang("replies"),
  "hang requests": (proxy) => proxy.hang("requests"),
  "lose next reply": loseNextReply,
  refuse: (proxy) => proxy.refuse(),
  heal: (proxy) => proxy.heal(),
};

/** The connection breaks exactly when the next reply comes back: the server has acted, and its answer is lost. */
function loseNextReply(proxy: Proxy): void {
  proxy.onReply = () => {
    proxy.onReply = undefined;
    return "reset";
  };
}

function fault(sign: FaultSign, text: string): { kind: "fault"; sign: FaultSign; text: string } {
  return { kind: "fault", sign, text };
}

function actorOf(play: Play, who: string): Actor {
  const actor = play.actors.get(who);
  if (actor === undefined) throw new Error(`No client ${who} on stage`);
  return actor;
}

function signed(ms: number): string {
  return `${ms < 0 ? "−" : "+"}${Math.abs(ms) >= 60_000 ? `${Math.abs(ms) / 60_000} min` : `${Math.abs(ms) / 1000} s`}`;
}

function describe(step: Step): string {
  return "who" in step ? `${step.who} ${step.do}` : step.do;
}
