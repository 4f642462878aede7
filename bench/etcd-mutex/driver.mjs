/** Go's concurrency.Mutex as a contestant: its module comes from Go's own archive, the driver is compiled here, once. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../lib/peers.mjs";

const HERE = import.meta.dirname;
const PROGRAM = join(HERE, "target", "etcd-mutex");

let prepared;

/** One entrant; with `refusal` where Go or its archive is missing. None when peers are not wanted. */
export async function goMutex(context) {
  if (!context.peers) return [];
  prepared ??= prepare(context);
  const refusal = await prepared;
  return [{ name: "concurrency.Mutex (Go)", family: "etcd", command: [PROGRAM], version: version(), refusal }];
}

async function prepare(context) {
  if (builtMs() > statSync(join(HERE, "main.go")).mtimeMs) return undefined;
  context.say("building the driver of Go's mutex (go build; once, a minute or so) …");
  const trouble = await run("go", ["build", "-o", PROGRAM, "."], HERE);
  return trouble === undefined ? undefined : `its driver could not be built: ${trouble}`;
}

/** 0: it was not built yet. */
function builtMs() {
  return statSync(PROGRAM, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function version() {
  return /etcd\/client\/v3 v(\S+)/.exec(readFileSync(join(HERE, "go.mod"), "utf8"))?.[1];
}
