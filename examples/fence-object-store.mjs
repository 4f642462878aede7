// An object in an S3-like store that only the latest holder can replace, by If-Match.
//
//   node examples/fence-object-store.mjs
import { connect } from "holdfast";
import { FenceRejectedError, parseFence } from "holdfast/fence";
import { startObjectStore } from "./object-store.mjs";

/**
 * Replaces the object unless a later lease has written it. The store compares the ETag, so nothing fits in between.
 * The fence is part of the body, not metadata: an ETag may depend on the body alone, and must change with the fence.
 */
async function putFenced(url, { name, fence }, data) {
  const body = JSON.stringify({ fence: fence.toString(), data });
  for (let tries = 0; tries < 20; tries++) {
    const found = await fetch(url);
    if (!found.ok && found.status !== 404) throw new Error(`GET ${url}: ${found.status}`);
    const current = found.ok ? parseFence((await found.json()).fence) : 0n;
    if (current === undefined) throw new Error(`${url} carries no fence`);
    if (current > fence) throw new FenceRejectedError(name, current, fence);
    const condition = found.ok ? { "if-match": found.headers.get("etag") } : { "if-none-match": "*" };
    const put = await fetch(url, { method: "PUT", body, headers: condition });
    if (put.ok) return;
    // 412: changed since we looked; 409: another client is changing it right now. Try again.
    if (put.status !== 412 && put.status !== 409) throw new Error(`PUT ${url}: ${put.status}`);
  }
  throw new Error(`${url} kept changing`);
}

const locks = await connect();
const store = await startObjectStore();
const url = `${store.url}/reports/today`;

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("report", { ttl: "200ms", renew: false });

// So the next one gets the lock and writes.
await locks.run("report", (lease) => putFenced(url, lease, "by the next holder"));

// Now the first one goes on as if nothing had happened.
await putFenced(url, paused, "by the paused holder").catch((error) => console.log(`refused: ${error.code}`));

const { data } = await (await fetch(url)).json();
console.log(`the object was written ${data}`);
store.close();
await locks.close();
