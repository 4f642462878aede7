// Locks in the database that you already have: leases with fences, and a lock that lives exactly as long as a transaction.
//
//   DATABASE_URL=postgres://localhost/app node examples/postgres.mjs
import { createLocks } from "holdfast";
import { postgres, withTransactionLock } from "holdfast/postgres";
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
// Once: `holdfast migrate` does the same.
const locks = createLocks(postgres(pool, { migrate: true }));

// A lease: for work outside of the database too. The fence says which of two holders is the later one.
const send = (who) =>
  locks.run("newsletter", { wait: "10s" }, async ({ fence }) => {
    console.log(`${who} sends, fence ${fence}`);
  });
await Promise.all([send("ada"), send("ben")]);

// Work that is done once: the second call gets the value of the first, also in another process, for an hour.
const total = () =>
  locks.once("total:2026-11", { keep: "1h" }, async () => {
    console.log("adding up");
    return 4711;
  });
const [first, second] = [await total(), await total()];
console.log(`total ${first.value}, and again ${second.value}, replayed: ${second.replayed}`);

// Nothing but one transaction: no lease is needed, and the lock goes with the commit.
const client = await pool.connect();
await client.query("begin");
await withTransactionLock(client, "newsletter", { wait: "2s" });
console.log("in a transaction, alone");
await client.query("commit");
client.release();

await locks.close();
await pool.end();
