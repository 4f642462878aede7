// The conformance suite without a test runner: it is data. Arguments: the runtime, the store, and where it is.
import { conformance, FakeClock, withoutDeclined } from "holdfast/testing";
import { DECLINED } from "./declined.mjs";

const [runtime, store, where] = process.argv.slice(2);
/** As many checks at once; the fake clock of memory stands for one after the other. */
const AT_ONCE = store === "memory" ? 1 : 12;

const contexts = {
  memory: async () => {
    const { memory, memoryStore } = await import("holdfast/memory");
    const clock = new FakeClock();
    const shared = memoryStore({ clock });
    return { open: () => memory({ store: shared }), clock, sleep: (ms) => clock.sleep(ms) };
  },
  file: async () => {
    const { file } = await import("holdfast/file");
    const lateIds = "a lease file serves one claim after the other, and its text never changes";
    return { open: () => file({ dir: where }), lateIds };
  },
  ioredis: async () => {
    const { Redis } = await import("ioredis");
    return await redisContext(new Redis(where), (client) => client.disconnect());
  },
  redis: async () => {
    const { createClient } = await import("redis");
    const client = createClient({ url: where });
    await client.connect();
    return await redisContext(client, (one) => one.destroy());
  },
};
let close = () => undefined;

async function redisContext(client, end) {
  const { redis } = await import("holdfast/redis");
  client.on("error", () => undefined);
  close = () => end(client);
  return { open: () => redis(client) };
}

const context = { patienceMs: 60_000, ...(await contexts[store]()) };
const promises = conformance.map(({ promise }) => promise);
const declined = Object.fromEntries(
  Object.entries(DECLINED[runtime]).filter(([promise]) => promises.includes(promise)),
);
const left = [...withoutDeclined(conformance, declined)];
const backend = await context.open();
const cannot = left.filter(({ ability }) => ability !== undefined && backend.can?.[ability] !== true);
await backend.close();
let kept = 0;
const broken = [];
const queue = left.filter((one) => !cannot.includes(one));
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      try {
        await next.check(context);
        kept += 1;
      } catch (error) {
        broken.push(`BROKEN: ${next.promise}\n${error?.stack ?? error}`);
      }
    }
  }),
);
close();
for (const line of broken) console.log(line);
if (broken.length > 0) process.exitCode = 1;
else
  console.log(
    `${kept} promises kept, ${cannot.length} that the store says it cannot keep, ${Object.keys(declined).length} declined`,
  );
