/**
 * The processes in which one contestant runs. Each has its own heap and its own CPU account, and stays for the whole
 * suite, so that compiled code is warm and no contestant pays for another's garbage.
 *
 * Orders and answers are lines of JSON on stdin and stdout, so that a driver in another language can take part.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { join } from "node:path";

export const WORKER = join(import.meta.dirname, "worker.mjs");
const ANSWER_LIMIT_MS = 180_000;

class Worker {
  #child;
  #answers = [];
  #ended;
  #complaint = "";

  constructor(command, args) {
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stdin.on("error", () => {});
    this.#child.stderr.on("data", (data) => (this.#complaint = (this.#complaint + data).slice(-2000)));
    createInterface({ input: this.#child.stdout }).on("line", (line) => this.#hear(line));
    this.#child.once("error", (error) => this.#end(error.message));
    this.#child.once("exit", (code, signal) =>
      this.#end(`it ended with ${signal ?? code}: ${lastWords(this.#complaint)}`),
    );
  }

  get pid() {
    return this.#child.pid;
  }

  /** Resolves with the answer; rejects when the process ends, answers with an error, or is silent for too long. */
  order(order, limitMs = ANSWER_LIMIT_MS) {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(new Error(this.#ended));
      const timer = setTimeout(() => reject(new Error(`no answer within ${limitMs / 1000} s`)), limitMs);
      this.#answers.push((answer) => {
        clearTimeout(timer);
        if (answer.error === undefined) resolve(answer);
        else reject(new Error(answer.error));
      });
      if (order !== undefined) this.#child.stdin.write(`${JSON.stringify(order)}\n`);
      return undefined;
    });
  }

  async stop() {
    if (this.#ended !== undefined) return;
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 1500);
    await ended;
    clearTimeout(timer);
  }

  kill() {
    this.#child.kill("SIGKILL");
  }

  #hear(line) {
    // Libraries may print: only our own lines count.
    if (!line.startsWith('{"answer":')) return;
    this.#answers.shift()?.(JSON.parse(line).answer);
  }

  #end(why) {
    this.#ended = why;
    for (const answer of this.#answers.splice(0)) answer({ error: why });
  }
}

export class Team {
  #workers;

  constructor(workers) {
    this.#workers = workers;
  }

  /** Starts `count` processes of the contestant and resolves when each has connected. */
  static async start(contestant, count, env) {
    const command = contestant.command ?? [process.execPath, WORKER, contestant.family, contestant.name];
    const [program, ...args] = typeof command === "function" ? command(env) : command;
    const workers = Array.from({ length: count }, () => new Worker(program, [...args, JSON.stringify(env)]));
    const team = new Team(workers);
    try {
      await Promise.all(workers.map((worker) => worker.order(undefined, 30_000)));
      return team;
    } catch (error) {
      await team.stop();
      throw error;
    }
  }

  get size() {
    return this.#workers.length;
  }

  get pids() {
    return this.#workers.map((worker) => worker.pid);
  }

  /** Gives all the same order; `own(index)` adds what differs. */
  order(order, own = () => ({}), limitMs) {
    return Promise.all(this.#workers.map((worker, index) => worker.order({ ...order, ...own(index) }, limitMs)));
  }

  /** Gives one of them an order. */
  orderOne(index, order, limitMs) {
    return this.#workers[index].order(order, limitMs);
  }

  kill(index) {
    this.#workers[index].kill();
  }

  async stop() {
    await Promise.all(this.#workers.map((worker) => worker.stop()));
  }
}

function lastWords(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.find((line) => /error/i.test(line)) ?? lines.filter((line) => line !== "").at(-1) ?? "no message";
}
