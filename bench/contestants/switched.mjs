/**
 * Two ways of the same, by turns in one process: without telemetry and with it, or with spans that the program makes itself and with
 * ours. Processes of the same program differ by more than a listener costs, so that only one process can tell them apart.
 */
import { built } from "../lib/holdfast.mjs";
import { backendOf, byHand, inRequests, ON, traced } from "./telemetry.mjs";

const NOTHING = { end() {} };

async function prepared(env) {
  const [{ createLocks }, backend] = await Promise.all([built("index.js"), backendOf(env)]);
  const locks = createLocks(backend);
  const cycle = async (name) => {
    const lease = await locks.acquire(name);
    await lease.release();
  };
  return { locks, backend, cycle };
}

/** `on`: turned on for its turns, and ended after them. */
const listening = (on) => ({
  own: true,
  async open(env) {
    const { locks, cycle } = await prepared(env);
    return { off: cycle, on: cycle, turnOn: () => on(locks) };
  },
});

/** Inside of a request that is traced. The other way makes no spans, the same two itself, or those and what others are linked by. */
const withSpans = (ratio, hand) => ({
  own: true,
  async open(env) {
    const [{ locks, backend, cycle }, tracerProvider, { instrument }] = await Promise.all([
      prepared(env),
      traced(ratio),
      built("telemetry/otel/index.js"),
    ]);
    return {
      off: inRequests(
        tracerProvider,
        hand === "none" ? cycle : await byHand(locks, backend, tracerProvider, hand === "linked"),
      ),
      on: inRequests(tracerProvider, cycle),
      turnOn: () => instrument({ metrics: false, tracerProvider }),
    };
  },
});

export const contestants = {
  "off again": listening(() => NOTHING),
  contention: listening(ON.contention),
  prometheus: listening(ON.prometheus),
  log: listening(ON.log),
  "otel producer": listening(ON.producer),
  "otel metrics": listening(ON.metrics),
  "spans, none sampled": withSpans(0, "none"),
  "spans, all": withSpans(1, "none"),
  "spans by hand again": {
    own: true,
    async open(env) {
      const { off } = await withSpans(1, "plain").open(env);
      return { off, on: off, turnOn: () => NOTHING };
    },
  },
  "spans against by hand, 1 of 10": withSpans(0.1, "plain"),
  "spans against by hand, all": withSpans(1, "plain"),
  "spans against by hand with links, all": withSpans(1, "linked"),
};
