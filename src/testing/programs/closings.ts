/** What close() promises: nothing starts behind it, nothing ends under running work without force, nothing is left. */
import type { StoreChange } from "../../backends/memory/index.ts";
import { peek } from "../peek.ts";
import type { Rule } from "./program.ts";
import type { Client, Stage } from "./stage.ts";
import type { Call, Tenancy } from "./tenancy.ts";
import { isPart, type Truth } from "./truth.ts";

export class Closings {
  readonly #stage: Stage;
  readonly #truth: Truth;
  readonly #pending: () => readonly Call[];
  readonly #fail: (rule: Rule, message: string) => void;
  readonly #clean = new Set<Client>();

  constructor(stage: Stage, truth: Truth, pending: () => readonly Call[], fail: (rule: Rule, message: string) => void) {
    this.#stage = stage;
    this.#truth = truth;
    this.#pending = pending;
    this.#fail = fail;
  }

  called(client: Client, force: boolean): void {
    client.closing ??= { turn: this.#stage.turn, settled: "no" };
    if (force) client.forced = true;
  }

  settled(client: Client, how: "resolved" | "rejected"): void {
    if (client.closing !== undefined && client.closing.settled !== "resolved") client.closing.settled = how;
  }

  handed(tenancy: Tenancy): void {
    const { client, call, lease } = tenancy;
    const { closing } = client;
    if (closing === undefined || closing.turn >= this.#stage.turn) return;
    const who = `${client.name}'s ${call.verb}() of "${call.names.join()}"`;
    if (closing.settled === "resolved") this.#fail("work started after close", who);
    // Work that is inside already may go in again, but not wait for it.
    else if (call.turn < this.#stage.turn || ![...lease.fences].every(([name, fence]) => isPart(tenancy, name, fence)))
      this.#fail("lease handed out after close", `${who}, called ${this.#stage.nowMs - call.nowMs} ms ago`);
  }

  /** A release in the store under a function that runs, and did not ask for it. */
  changed(change: StoreChange): void {
    const client = this.#stage.clientOf(change.holder);
    if (client === undefined) return;
    if (client.closing?.settled === "resolved" && (change.kind === "granted" || change.kind === "queued"))
      this.#fail(
        "left after close",
        `the store says "${change.kind}" of "${change.lock}" to ${client.name} after its close()`,
      );
    if (change.kind !== "dropped" || change.how !== "released" || client.forced || client.dozed) return;
    const record = this.#truth.leaseOf(change.lock, change.fence);
    for (const tenancy of this.#truth.tenancies) {
      if (tenancy.client !== client || !tenancy.working || tenancy.released) continue;
      for (const { name, fence, trustedUntilMs } of peek(tenancy.lease)) {
        if (name !== change.lock || record === undefined || fence < record.fence || fence > record.lastFence) continue;
        if (trustedUntilMs <= client.process.clock.now() || client.knownLost.has(change.claim)) continue;
        this.#fail(
          "close under work",
          `the lease of "${name}" (fence ${fence}) was released while ${client.name}'s ${tenancy.call.verb}() still works`,
        );
      }
    }
  }

  /** A client that has closed must have left nothing: no claim, no timer, no call that waits. */
  look(): void {
    for (const client of this.#stage.clients) {
      if (client.closing?.settled !== "resolved" || this.#clean.has(client)) continue;
      const pending = this.#pending();
      // Who calls close() again may wait for that again.
      if (pending.some((call) => call.client === client && call.verb === "close")) continue;
      this.#clean.add(client);
      const waiting = pending.filter(
        // Under force, work may go on without its lease.
        ({ client: who, verb }) => who === client && !(client.forced && (verb === "run" || verb === "elect")),
      );
      for (const { verb, names } of waiting)
        this.#fail("does not settle", `${client.name}'s ${verb}() of "${names.join()}" still waits after close()`);
      this.#expectNothing(client);
      if (client.process.timers > client.asking)
        this.#fail("left after close", `${client.name} has ${client.process.timers} timers after close()`);
    }
  }

  #expectNothing(client: Client): void {
    for (const { name, held, queued } of this.#stage.store.view()) {
      for (const lease of held) {
        if (lease.claim.holder === client.name && !this.#truth.isDelayed(lease))
          this.#fail("left after close", `${client.name} still holds "${name}" (fence ${lease.fence}) after close()`);
      }
      for (const claim of queued) {
        if (claim.holder === client.name)
          this.#fail("left after close", `${client.name} still waits for "${name}" in the store after close()`);
      }
    }
  }
}
