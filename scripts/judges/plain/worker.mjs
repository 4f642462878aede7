// What the Node workers share. Every worker, in whichever language, prints: want, in, out with the machine's monotonic time in ns; or lost.
import { setTimeout as sleep } from "node:timers/promises";

const { sectionMs, thinkMs } = JSON.parse(process.argv[2]);
const now = () => process.hrtime.bigint();
const say = (word) => process.stdout.write(`${word} ${now()}\n`);
let isOver = false;
process.stdin.resume().on("end", () => (isOver = true));

/** `turn` takes the lock, calls its argument inside, and resolves to whether it held the lock until then. */
export async function work(turn) {
  while (!isOver) {
    say("want");
    const held = await turn(async () => {
      say("in");
      await sleep(sectionMs * (0.5 + Math.random()));
      say("out");
      return true;
    });
    if (!held) say("lost");
    await sleep(thinkMs * (0.5 + Math.random()));
  }
}
