// One scheduler among three candidates; when it steps down, the next one is elected.
//
//   node examples/leader.mjs
import { connect } from "holdfast";
import { once } from "node:events";

async function candidate(name, terms) {
  const locks = await connect({ holder: name });
  const retire = new AbortController();
  const work = async ({ fence, signal }) => {
    console.log(`${name} leads, fence ${fence}`);
    terms.push(fence);
    // Work until the lease is lost or we step down. Here: one short term, then retirement.
    setTimeout(() => retire.abort(), 100);
    if (!signal.aborted) await once(signal, "abort");
    console.log(`${name} steps down`);
  };
  await locks.elect("scheduler", { signal: retire.signal }, work);
  await locks.close();
}

const terms = [];
await Promise.all(["alpha", "beta", "gamma"].map((name) => candidate(name, terms)));
console.log(`fences rose from term to term: ${terms.every((fence, i) => i === 0 || fence > terms[i - 1])}`);
