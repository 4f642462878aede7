/** installWebLocks(): in processes of their own, since it changes what is global. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { ROOT } from "../../dist.ts";

const START = `
  import { connect } from "holdfast";
  import { installWebLocks, webLocks } from "holdfast/web-locks";
  const locks = await connect("memory:");
  const say = (...what) => console.log(...what);
`;

/** What the program prints. `before`: makes the runtime what it is to be, whatever this one is. */
async function run(before: string, program: string): Promise<readonly string[]> {
  const args = ["--input-type=module", "-e", `${before}\n${START}\n${program}\nawait locks.close();`];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  return stdout.trim().split("\n");
}

const BARE = "for (const name of ['navigator', 'Lock', 'LockManager']) delete globalThis[name];";
const WITH_NAVIGATOR = `${BARE} Object.defineProperty(globalThis, "navigator", { value: { userAgent: "test" }, configurable: true });`;
const WITH_LOCKS = `${BARE} class Navigator { get locks() { return "its own"; } }
  Object.defineProperty(globalThis, "navigator", { value: new Navigator(), configurable: true });`;

test("where there is no navigator one is made, and all is as before when it is taken away", async () => {
  const said = await run(
    BARE,
    `const uninstall = installWebLocks(locks);
     say(await navigator.locks.request("a", (lock) => lock.name), navigator.locks === webLocks(locks), Object.keys(globalThis).includes("navigator"));
     say(navigator.locks instanceof LockManager, await navigator.locks.request("a", (lock) => lock instanceof Lock));
     uninstall();
     uninstall();
     say(typeof navigator, typeof Lock, typeof LockManager);`,
  );
  expect(said).toEqual(["a true false", "true true", "undefined undefined undefined"]);
});

test("where there is a navigator without locks, it gets them and keeps the rest", async () => {
  const said = await run(
    WITH_NAVIGATOR,
    `const uninstall = installWebLocks(locks);
     say(navigator.userAgent, "locks" in navigator, navigator.locks === navigator.locks);
     uninstall();
     say(navigator.userAgent, "locks" in navigator);`,
  );
  expect(said).toEqual(["test true true", "test false"]);
});

test("where the runtime has locks of its own, they are replaced only if that is said", async () => {
  const said = await run(
    WITH_LOCKS,
    `try { installWebLocks(locks); } catch (error) { say(error.code, navigator.locks); }
     const uninstall = installWebLocks(locks, { replace: true });
     say(navigator.locks === webLocks(locks));
     uninstall();
     say(navigator.locks);`,
  );
  expect(said).toEqual(["ERR_LOCK_ARGUMENT its own", "true", "its own"]);
});
