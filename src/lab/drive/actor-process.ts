/** A client of the driver in a process of its own, over a directory: it can be stopped and killed. */
import { Actor } from "./actor.ts";
import { Beliefs } from "./beliefs.ts";
import { loadHoldfast } from "./library.ts";
import { type FromActor, type ProcessSetup, SETUP_VARIABLE, type ToActor } from "./process-orders.ts";
import type { Reporter } from "./report.ts";
import { Tasks } from "./tasks.ts";

const setup = JSON.parse(process.env[SETUP_VARIABLE] ?? "{}") as ProcessSetup;
const holdfast = await loadHoldfast(setup.dist);
const reporter: Reporter = {
  event: (event) => send({ type: "event", event }),
  find: (finding) => send({ type: "finding", finding }),
  count: (what) => send({ type: "count", what }),
};
const shared = { tasks: new Tasks(reporter), beliefs: new Beliefs(holdfast, reporter) };
const actor = new Actor(
  {
    name: setup.name,
    prefix: setup.prefix,
    holdfast,
    reporter,
    open: (holder) => holdfast.createLocks(holdfast.file({ dir: setup.dir }), { holder }),
    closed: async (holder, step, clean) => send({ type: "closed", holder, step, clean }),
  },
  shared,
);
process.on("unhandledRejection", (reason) =>
  reporter.find({ step: 0, rule: "unhandled rejection", message: String(reason) }),
);
process.on("disconnect", () => process.exit(1));
process.on("message", (order: ToActor) => void obey(order));
send({ type: "ready" });

async function obey(order: ToActor): Promise<void> {
  if (order.do === "perform") return actor.perform(order.step, order.act);
  if (order.do === "settle") await shared.tasks.settled();
  else {
    await Promise.race([actor.finish(), shared.tasks.settled()]);
    await shared.tasks.settled();
    shared.tasks.stop();
    shared.beliefs.stop();
  }
  send({ type: "done", id: order.id });
  // Nothing else may keep it alive.
  if (order.do === "finish") {
    process.removeAllListeners("disconnect");
    process.removeAllListeners("message");
    process.disconnect();
  }
}

function send(message: FromActor): void {
  process.send?.(message, undefined, undefined, (error) => error && process.exit(1));
}
