/** What a Redis server spent: CPU time, commands that clients sent, and calls including those made by scripts. */

/** Only clients send these. Redis counts what scripts call in the same way, so the rest must be separated by contestant. */
const SENT = new Set([
  "eval",
  "evalsha",
  "subscribe",
  "unsubscribe",
  "psubscribe",
  "punsubscribe",
  "wait",
  "script|load",
]);

import { createConnection } from "node:net";

export class Store {
  #socket;
  #buffer = "";
  #waiting = [];

  constructor(port) {
    this.#socket = createConnection(port, "127.0.0.1");
    this.#socket.setEncoding("utf8");
    this.#socket.on("data", (data) => this.#hear(data));
    this.#socket.on("error", () => {});
    // The lab's servers ask for it; another's answers with an error, which does no harm.
    void this.#send(["AUTH", process.env.HOLDFAST_LAB_PASSWORD ?? ""]);
  }

  async read() {
    const info = await this.#info();
    const number = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
    const counts = new Map();
    let calls = 0;
    for (const [, name, count] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
      counts.set(name, Number(count));
      if (name !== "info") calls += Number(count);
    }
    return {
      cpuUs: (number("used_cpu_user_main_thread") + number("used_cpu_sys_main_thread")) * 1e6,
      counts,
      calls,
      // Without what its connections use: that goes with them, and comes and goes.
      memoryBytes: number("used_memory") - number("mem_clients_normal") - number("mem_clients_slaves"),
      allBytes: number("used_memory"),
      netBytes: number("total_net_input_bytes") + number("total_net_output_bytes"),
      clients: number("connected_clients"),
      reads: number("total_reads_processed"),
    };
  }

  /** What was spent since an earlier reading. `sends`: further commands that this contestant's clients, not scripts, send. */
  async since(before, sends = []) {
    const now = await this.read();
    let commands = 0;
    for (const [name, count] of now.counts) {
      if (SENT.has(name) || sends.includes(name)) commands += count - (before.counts.get(name) ?? 0);
    }
    return { cpuUs: now.cpuUs - before.cpuUs, commands, calls: now.calls - before.calls };
  }

  async command(...words) {
    return await this.#send(words);
  }

  close() {
    this.#socket.destroy();
  }

  async #info() {
    return await this.#send(["INFO", "everything"]);
  }

  #send(words) {
    const text = `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#socket.write(text);
    });
  }

  #hear(data) {
    this.#buffer += data;
    for (;;) {
      const line = /^([+:-])([^\r]*)\r\n/.exec(this.#buffer);
      if (line !== null) {
        this.#buffer = this.#buffer.slice(line[0].length);
        this.#waiting.shift()?.(line[2]);
        continue;
      }
      const [head, length] = /^\$(\d+)\r\n/.exec(this.#buffer) ?? [];
      if (head === undefined || this.#buffer.length < head.length + Number(length) + 2) return;
      this.#waiting.shift()?.(this.#buffer.slice(head.length, head.length + Number(length)));
      this.#buffer = this.#buffer.slice(head.length + Number(length) + 2);
    }
  }
}
