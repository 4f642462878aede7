// What the Node workers share. Every worker, in whichever language, prints: want, in, out with the machine's monotonic time in ns; or lost.
import { setTimeout as sleep } from "node:timers/promises";

const order = JSON.parse(process.argv[2]);
const now = () => process.hrtime.bigint();
const say = (word, rest = "") => process.stdout.write(`${word} ${now()}${rest}\n`);
let isOver = false;
process.stdin.resume().on("end", () => (isOver = true));

/** One in so many lasts longer than a ttl, where the order says so: then it lives by renewals. */
function sectionTime({ sectionMs, ttlMs, longOneIn }) {
  if (longOneIn !== undefined && Math.random() * longOneIn < 1) return ttlMs * 1.5;
  return sectionMs * (0.5 + Math.random());
}

/** `turn` takes the lock, calls its argument inside, and resolves to whether it held the lock until then. `own`: what this worker has otherwise than ordered. */
export async function work(turn, own = {}) {
  const terms = { ...order, ...own };
  while (!isOver) {
    say("want");
    const held = await turn(async (mode = "exclusive", fence = "") => {
      say("in", ` ${mode} ${fence}`.trimEnd());
      await sleep(sectionTime(terms));
      say("out");
      return true;
    });
    if (!held) say("lost");
    await sleep(terms.thinkMs * (0.5 + Math.random()));
  }
}
