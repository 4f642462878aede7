/** A client of the lab, in a process of its own: takes orders from the lab, and reports what it sees, when. */
import { type ClientSetup, type Closed, type FromClient, type Order, SETUP_VARIABLE, type ToClient } from "./orders.ts";
import type { LockLibrary, Hold } from "../libraries/library.ts";
import { openLibrary } from "../libraries/open.ts";
import { writeFenceHeader } from "../../fence/index.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Happening, Register } from "../events.ts";
import { Sections } from "../soak/sections.ts";

const REGISTERS: readonly Register[] = ["plain", "guarded"];
/** How often the client looks how long it may trust; finer than any ttl of the lab. */
const TRUST_LOOK_MS = 10;
/** Redis clients let their time limits run out after they were closed; what is there after twelve seconds has been forgotten. */
const LEFTOVER_LOOKS = 120;

class Client {
  readonly #setup: ClientSetup;
  readonly #contender: LockLibrary;
  readonly #read: Record<Register, number> = { plain: 0, guarded: 0 };
  #hold: Hold | undefined;
  #sections: Sections | undefined;
  #look: NodeJS.Timeout | undefined;

  constructor(setup: ClientSetup, contender: LockLibrary) {
    this.#setup = setup;
    this.#contender = contender;
  }

  async obey(order: Order): Promise<unknown> {
    switch (order.do) {
      case "acquire":
        return this.#acquire(order);
      case "read":
        return this.#readBoth();
      case "write":
        return this.#writeBoth();
      case "check":
        return this.#check();
      case "peek":
        return this.#hold?.isHeld();
      case "release":
        return this.#release();
      case "block":
        return block(order.ms);
      case "sections":
        this.#sections = new Sections(this.#contender, this.#setup.client, order.plan, send);
        return this.#sections.run();
      case "stop sections":
        return this.#sections?.stop();
      case "close":
        return this.#close(order.thorough);
    }
  }

  /** What is still there some time after the locks were closed, and was not there before they were opened. */
  async #close(thorough: boolean): Promise<Closed> {
    clearInterval(this.#look);
    // Whatever it says, the process must end, and nothing may be left in it.
    const unconfirmed = await this.#contender.close().then(() => undefined, messageOf);
    if (!thorough) return { left: [], unconfirmed };
    let left = leftovers();
    for (let looks = 0; left.length > 0 && looks < LEFTOVER_LOOKS; looks++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      left = leftovers();
    }
    return { left, unconfirmed };
  }

  async #acquire(order: Order & { do: "acquire" }): Promise<boolean> {
    tell({ kind: "asked" });
    try {
      const hold = await this.#contender.acquire(this.#setup.lock, order.terms);
      if (hold === undefined) tell({ kind: "refused", reason: "another client holds it" });
      else this.#believe(hold);
      return hold !== undefined;
    } catch (error) {
      tell({ kind: "refused", reason: messageOf(error) });
      return false;
    }
  }

  #believe(hold: Hold): void {
    this.#hold = hold;
    let untilMs = hold.trustedUntilMs();
    tell({ kind: "granted", fence: hold.fence, untilMs });
    hold.onLost((reason) => {
      clearInterval(this.#look);
      tell({ kind: "lost", reason });
    });
    this.#look = setInterval(() => {
      const nowUntilMs = hold.trustedUntilMs();
      if (nowUntilMs <= machineMs()) return;
      // Two readings of one instant differ by the time between two clocks' readings.
      if (nowUntilMs === untilMs || Math.abs(nowUntilMs - untilMs) < 2) return;
      untilMs = nowUntilMs;
      tell({ kind: "trust", untilMs });
    }, TRUST_LOOK_MS);
  }

  #check(): boolean | undefined {
    const held = this.#hold?.isHeld();
    if (held !== undefined) tell({ kind: "checked", held });
    return held;
  }

  async #release(): Promise<string> {
    clearInterval(this.#look);
    tell({ kind: "releasing" });
    const result = await (this.#hold?.release() ?? "nothing to release");
    tell({ kind: "released", result });
    return result;
  }

  async #readBoth(): Promise<void> {
    for (const register of REGISTERS) {
      const answer = await fetch(`${this.#setup.counterUrl}/${register}`);
      this.#read[register] = Number(await answer.text());
    }
  }

  async #writeBoth(): Promise<Record<Register, boolean>> {
    const [plain, guarded] = await Promise.all(REGISTERS.map((register) => this.#write(register)));
    return { plain: plain === true, guarded: guarded === true };
  }

  async #write(register: Register): Promise<boolean> {
    const { client, counterUrl, lock } = this.#setup;
    const fence = this.#hold?.fence;
    const headers: Record<string, string> = {};
    if (fence !== undefined) headers["fencing-token"] = writeFenceHeader([{ name: lock, fence }]);
    const read = this.#read[register];
    const body = JSON.stringify({ by: client, read, value: read + 1 });
    const answer = await fetch(`${counterUrl}/${register}`, { method: "POST", headers, body });
    return answer.ok;
  }
}

function leftovers(): readonly string[] {
  const left = process.getActiveResourcesInfo();
  for (const resource of before) {
    const at = left.indexOf(resource);
    if (at >= 0) left.splice(at, 1);
  }
  return left;
}

function block(ms: number): void {
  const untilMs = machineMs() + ms;
  while (machineMs() < untilMs);
}

function send(message: FromClient): void {
  // The lab is gone when this fails, and so are we.
  process.send?.(message, undefined, undefined, (error) => error && process.exit(1));
}

function tell(happening: Happening, atMs: number = machineMs()): void {
  send({ type: "event", atMs, happening });
}

/** Nothing holds this process any more but what the locks left: the lab sees whether it ends. */
function endAlone(): void {
  process.off("disconnect", leave);
  process.disconnect();
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const setup = JSON.parse(process.env[SETUP_VARIABLE] ?? "{}") as ClientSetup;
const leave = (): void => process.exit(0);
process.on("disconnect", leave);
process.on("message", ({ id, order }: ToClient) => {
  client.obey(order).then(
    (value) => {
      send({ type: "done", id, value });
      if (order.do === "close" && order.thorough) endAlone();
    },
    (error: unknown) => send({ type: "failed", id, message: messageOf(error) }),
  );
});
// Opened here at the latest: some libraries do so by asking whether it is a terminal.
void process.stderr;
const before = process.getActiveResourcesInfo();
const client = new Client(setup, await openLibrary(setup.library, setup.link, setup.client));
// The first fetch compiles much code, which on a slow machine would cost a good part of a lease.
if (setup.counterUrl !== "") await fetch(`${setup.counterUrl}/plain`).then((answer) => answer.text());
send({ type: "ready" });
