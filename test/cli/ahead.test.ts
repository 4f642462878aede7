/** A run that is next in line starts its warden before it has the lock; those behind it do not. */
import { afterAll, expect, test } from "vitest";

import { Bench, isRunning, type Started, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

interface Shown {
  readonly pending: readonly { readonly pid: number }[];
}

/** A run that holds the lock until it is killed, and others that wait for it, in this order. */
async function queue(name: string, ...waits: readonly string[]): Promise<Started[]> {
  const all = [bench.start(["run", name, "--", "sh", "-c", `echo $$ >> ${bench.path(name)}; exec sleep 600`])];
  await until(() => bench.lines(name).length > 0, "the first runs");
  for (const wait of waits) {
    all.push(bench.start(["run", name, "-w", wait, "--", "sh", "-c", `echo after >> ${bench.path(name)}`]));
    for (let waiting = 0; waiting < all.length - 1;) {
      const { stdout } = await bench.run(["show", name, "--json"]);
      waiting = (JSON.parse(stdout) as Shown).pending.length;
    }
  }
  return all;
}

async function wardenOf(run: Started): Promise<number> {
  return until(() => bench.childrenOf(run.pid)[0], "there is a warden");
}

test("the next in line has a warden while it waits, which watches over the command later", async () => {
  const [holder, next, last] = await queue("next", "1m", "1m");
  const warden = await wardenOf(next!);
  expect(bench.childrenOf(last!.pid)).toEqual([]);
  holder!.process.kill("SIGKILL");
  expect(await next!.done).toMatchObject({ code: 0 });
  expect(await last!.done).toMatchObject({ code: 0 });
  expect(bench.lines("next").slice(1)).toEqual(["after", "after"]);
  await until(() => !isRunning(warden), "the warden is gone");
});

test("a warden that was not needed goes: when the waiting ends, and when the waiting run is killed", async () => {
  const [holder, patient] = await queue("given-up", "1m");
  const killed = await wardenOf(patient!);
  patient!.process.kill("SIGKILL");
  await until(() => !isRunning(killed), "the warden of the killed one is gone");
  const impatient = bench.start(["run", "given-up", "-w", "3s", "--", "true"]);
  const dismissed = await wardenOf(impatient);
  expect(await impatient.done).toMatchObject({ code: 75 });
  await until(() => !isRunning(dismissed), "the warden of the impatient one is gone");
  holder!.process.kill("SIGKILL");
});
