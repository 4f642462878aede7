/** Holdfast in a process of its own: what keeps it alive, and what does not. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { DIST } from "../dist.ts";

const run = promisify(execFile);

async function script(body: string): Promise<string> {
  const text = `import { createLocks } from "${DIST}/index.js"; import { memory } from "${DIST}/backends/memory/index.js"; ${body}`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", text]);
  return stdout.trim();
}

test("a held lease does not keep the process alive", async () => {
  expect(await script(`const l = await createLocks(memory()).acquire("a"); console.log("held");`)).toBe("held");
});

test("a waiting acquire does keep it alive, until its answer", async () => {
  const body = `const locks = createLocks(memory()); await locks.acquire("a");
    await locks.acquire("a", { wait: 300 }).catch((error) => console.log(error.code));`;
  expect(await script(body)).toBe("ERR_LOCK_TIMEOUT");
});

test("a hold that lingers keeps it alive until it is given back, and close() gives it back at once", async () => {
  const backend = `const backend = memory(); const release = backend.release.bind(backend);
    backend.release = (claim) => { console.log("given back"); return release(claim); };`;
  const cycle = `await (await locks.acquire("a")).release(); console.log("released");`;
  const waits = `${backend} const locks = createLocks(backend, { linger: 200 }); ${cycle}`;
  expect(await script(waits)).toBe("released\ngiven back");
  // Longer than the test may take.
  const closes = `${backend} const locks = createLocks(backend, { ttl: "10h", linger: "1h" }); ${cycle} await locks.close();`;
  expect(await script(closes)).toBe("released\ngiven back");
});

test("a store that cannot be asked is reported, not waited for in a process that has already gone", async () => {
  const body = `const backend = memory(); backend.attempt = () => Promise.reject(new Error("down"));
    await createLocks(backend).acquire("a", { wait: 200 }).catch((error) => console.log(error.code));`;
  expect(await script(body)).toBe("ERR_LOCK_BACKEND");
});

test("a lease that is lost while nothing checks it ends the process neither by a throw nor by a rejection", async () => {
  const body = `const backend = memory(); const locks = createLocks(backend);
    await locks.acquire("a", { ttl: 120 }); backend.renew = () => Promise.reject(new Error("down"));
    setTimeout(() => console.log("still here"), 400);`;
  expect(await script(body)).toBe("still here");
});
