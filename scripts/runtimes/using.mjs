// `await using`, for runtimes that can parse it.
import assert from "node:assert/strict";
import { connect } from "holdfast";

const locks = await connect();
{
  await using lease = await locks.acquire("a");
  assert.equal(await locks.isHeld("a"), true);
  lease.assertHeld();
}
assert.equal(await locks.isHeld("a"), false);
await locks.close();
console.log("using: ok");
