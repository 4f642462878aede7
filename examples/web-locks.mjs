// Code that knows only the Web Locks standard, on locks that all processes share.
//
//   node examples/web-locks.mjs
import { connect } from "holdfast";
import { installWebLocks } from "holdfast/web-locks";

const [mine, theirs] = [await connect(), await connect()];
const uninstall = installWebLocks(mine, { replace: true });

// As in a browser: this function could come from any library.
async function sync() {
  return await navigator.locks.request("sync", async (lock) => `${lock.name}, ${lock.mode}`);
}
console.log(await sync());

await theirs.run("sync", async () => {
  const got = await navigator.locks.request("sync", { ifAvailable: true }, (lock) => lock);
  console.log(`another process holds it; we get it: ${got !== null}`);
  const { held } = await navigator.locks.query();
  console.log(held.map(({ name, mode }) => `${name} is held, ${mode}`).join());
});

// What only a distributed lock has: a fence for what you write to, and a signal for when the lock is lost.
const robbed = navigator.locks.request("sync", async ({ signal, fence }) => {
  console.log(`a fence that rises: ${typeof fence}`);
  await new Promise((resolve) => {
    signal.addEventListener("abort", resolve);
    void navigator.locks.request("sync", { steal: true }, () => console.log("stolen"));
  });
});
await robbed.catch(({ name, cause }) => console.log(`${name}, ${cause.code}`));

uninstall();
await Promise.all([mine.close(), theirs.close()]);
