/** Another process with a file backend, which runs the calls that it is sent: `{ call, args }` in, `{ answer }` or `{ error }` out. */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [, , dist, dir, options] = process.argv;
const { FileBackend } = await import(`${dist}/backends/file/backend.js`);
const backend = new FileBackend({ dir, ...JSON.parse(options ?? "{}") });
const reports = [];
backend.listen({
  lost: (id, reason) => reports.push({ id, reason }),
  doubt: () => reports.push({ doubt: true }),
  wanted: (wanted) => reports.push({ wanted }),
});
const undo = [];

const own = {
  reports: () => reports,
  alsoAlive: (pid) => void undo.push(backend.alsoAlive(pid)),
  notAlive: () => undo.pop()(),
  /** Blocks the event loop until there is such a file. */
  blockUntil: (path) => {
    while (!existsSync(path));
  },
  die: () => process.kill(process.pid, "SIGKILL"),
  kill: (pid) => process.kill(pid, "SIGKILL"),
  startChild: () => spawn("sleep", ["60"], { stdio: "ignore", detached: true }).pid,
  setuid: (uid) => {
    process.setgid(uid);
    process.setuid(uid);
  },
  watch: (claim) => backend.watch(claim, new AbortController().signal),
  /** Fills the file system with data, or with empty files. */
  fill: (path, what) => {
    try {
      for (let count = 0; ; count++) {
        if (what === "space") appendFileSync(path, Buffer.alloc(4096));
        else writeFileSync(`${path}-${count}`, "");
      }
    } catch (error) {
      return error.code;
    }
  },
  unfill: (path) => {
    for (const name of readdirSync(dirname(path)))
      if (name.startsWith(basename(path))) rmSync(join(dirname(path), name));
  },
};

process.on("message", (question) => void answer(question));

async function answer({ id, call, args }) {
  try {
    process.send({ id, answer: await (own[call] ?? backend[call].bind(backend))(...args) });
  } catch (error) {
    process.send({ id, error: { name: error.name, message: error.message, code: error.code, fatal: error.fatal } });
  }
}

process.on("disconnect", () => process.exit(0));
process.send({ id: 0 });
