/** The core stays small: what every user loads, without any backend. */
import { brotliCompressSync } from "node:zlib";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";

// 800 bytes more than in 0.1's last days: a wall clock that is set back must not hide a sleep (SleepDetector), tries must not keep a
// waiter from being asked for (S169), one wording of every loss, also of those that only backends know, and a quarantine as a field.
// 1,600 bytes more for the contract of 0.2: outcomes, wanted, and what a claim shows of its process.
// 600 bytes more for closeOnSignals(), tryRun(), inspect(), isHeld(), outcome() and forget(), most of which is loaded on demand.
// 100 bytes more: a renewal must be about the same lease, where a question for its claim had no answer (S165). 200 more, so that an outcome is only believed to
// be kept by the store's word. 450 more for extend() (most of it loaded on demand) and fenceOf(). 500 more for what subscribers hear of an acquire, and subscribe(). 200 more
// for what telemetry needs of the events: a loss when it happens, how late a renewal is, and what is added to a claim's meta.
// 200 more for what the last renewal failed with: a loss says why. 200 more for contention(), whose code is loaded on demand, and for how often the store was asked.
// 200 more, so that no subscriber can break a lock by what it does to an event, and each hears the whole story of a lease.
// 200 more for what an attack found in these: a line that is read once, and a lease that close() has released.
// 600 more for deadlocks: the option, the error, when to look, and that the store learns at once who waits no longer; what looks at them is loaded on demand.
// 100 more for the doors of the drop-ins (steal, claims of their own): what is behind them is loaded by those who use them.
// 100 more for what an attack found behind these doors: news that comes before a grant, a thief in the same process, and leases that are not renewed.
// 100 more for the page that each error and warning names.
// 1,300 more for `linger`: what is kept and for how long, that a try asks for it once, and which options contradict it.
// 200 more for what an attack on it found: answers that are older than the news, and doubt.
// 100 more for what campaigns found: a question that was sent twice, and a try whose lock does not come back in time.
// 100 more so that a listener is called where its signal was read, and a timer keeps no caller's context.
// 100 more for clocks that are read once: where the instant is handed on, and when it is not.
// 100 more so that a subscriber is inside of no lease, who waits is counted once, and an error can be written as JSON.
// 100 more for what an attack on these found: a release that names the fence of its lease where a late question may hold the lock.
// 100 more so that a release whose proof had no answer asks for it again, and what a backend runs in a release harms no list.
test("the core is at most 25.1 kB, bundled, minified and compressed", async () => {
  const input = join(import.meta.dirname, "../../src/index.ts");
  const isBackend = (id: string): boolean => /\/backends\/\w+\//.test(id);
  const bundle = await rolldown({ input, platform: "node", external: isBackend, logLevel: "silent" });
  const { output } = await bundle.generate({ format: "esm", minify: true });
  await bundle.close();
  // What is imported on demand, such as the reader of `HOLDFAST_URL=@file:…`, is loaded only by those who use it.
  const chunks = new Map(output.flatMap((chunk) => (chunk.type === "chunk" ? [[chunk.fileName, chunk] as const] : [])));
  const loaded = new Set(output.flatMap((chunk) => (chunk.type === "chunk" && chunk.isEntry ? [chunk.fileName] : [])));
  for (const name of loaded) for (const needed of chunks.get(name)?.imports ?? []) loaded.add(needed);
  const bytes = brotliCompressSync([...loaded].map((name) => chunks.get(name)?.code ?? "").join("\n")).length;
  expect(bytes).toBeGreaterThan(1000);
  expect(bytes).toBeLessThanOrEqual(25_100);
});
