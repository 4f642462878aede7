// `etcdctl lock` takes turns with Holdfast on one lock of a cluster of three.
import { join } from "node:path";
import { wakesOf } from "./interop.mjs";
import { columnsOf, findingsOf, takeTurns } from "./take-turns.mjs";

const node = (file) => [process.execPath, join(import.meta.dirname, "etcdctl", file)];

export async function judgeEtcdctl({ seconds, say }) {
  const { startEtcd } = await import("../build/lab/servers/etcd.js");
  const { findProgram } = await import("../build/lab/servers/programs.js");
  const etcdctl = await findProgram("etcdctl");
  const lab = await startEtcd({ members: 3 });
  try {
    say(`etcdctl lock: ${seconds} s …`);
    const order = { etcdctl, endpoints: lab.endpoints, name: "/judged/one" };
    const found = await takeTurns({ ours: node("ours.mjs"), theirs: node("lock.mjs"), order, seconds });
    const row = { program: `etcdctl lock, ${await versionOf(lab)}`, ...columnsOf(found) };
    return { rows: [row], findings: findingsOf("etcdctl", found, wakesOf("etcdctl", row)), refusals: [] };
  } finally {
    await lab.stop();
  }
}

async function versionOf(lab) {
  return /etcdctl version: (\S+)/.exec(await lab.etcdctl("version"))?.[1] ?? "of an unknown version";
}
