// Runs each rule of the Web Locks standard on one LockManager, and prints what became of it. Without a URL: on the runtime's own.
import { setTimeout as pause } from "node:timers/promises";
import { RULES } from "../../test/drop-ins/web-locks/rules/all.ts";

/** None takes nearly as long; one that waits for ever has failed. */
const MOST_MS = 10_000;
const [, , url] = process.argv;

const failed = [];
for (const [at, { rule, run, declined }] of RULES.entries()) {
  const locks = url === undefined ? navigator.locks : await ours();
  const over = new AbortController();
  const late = pause(MOST_MS, undefined, { signal: over.signal }).then(() =>
    Promise.reject(new Error("it did not end")),
  );
  late.catch(() => {});
  try {
    await Promise.race([run(locks, `rule ${at}`), late]);
  } catch (error) {
    failed.push({ rule, declined, why: String(error?.message ?? error).split("\n")[0] });
  } finally {
    over.abort();
  }
}
console.log(JSON.stringify({ version: process.versions.node, rules: RULES.map(({ rule }) => rule), failed }));
process.exit(0);

/** Over locks of its own for each rule, so that one that fails is in no other's way. */
async function ours() {
  const { connect } = await import("../../dist/index.js");
  const { webLocks } = await import("../../dist/drop-ins/web-locks/index.js");
  return webLocks(await connect(url));
}
