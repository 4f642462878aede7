// Rows in Postgres that only the latest holder can write: any statements in a transaction, or one row by itself.
//
//   DATABASE_URL=postgres://localhost/app node examples/fence-postgres.mjs
import { connect } from "holdfast";
import { migrateFences, updateFenced, withFence } from "holdfast/fence/postgres";
import pg from "pg";

const locks = await connect();
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await migrateFences(pool);
await pool.query("create table if not exists invoice (id int primary key, status text, fence bigint)");
await pool.query(
  "insert into invoice values (42, 'new', null) on conflict (id) do update set status = 'new', fence = null",
);

// Any statements: the transaction begins with the check, and no later holder gets in before it ends.
const pay = (lease, status) =>
  withFence(pool, lease, (client) => client.query("update invoice set status = $1 where id = 42", [status]));

// One row: it keeps the fence itself, and nothing else is needed.
const ship = (lease, status) => updateFenced(pool, lease, { table: "invoice", where: { id: 42 }, set: { status } });

for (const write of [pay, ship]) {
  // This holder does not renew and is about to be paused: its lease runs out.
  const paused = await locks.acquire("invoice:42", { ttl: "200ms", renew: false });

  // So the next one gets the lock and writes.
  await locks.run("invoice:42", (lease) => write(lease, `by the next holder (${write.name})`));

  // Now the first one goes on as if nothing had happened.
  await write(paused, "by the paused holder").catch((error) => console.log(`refused: ${error.code}`));
  const { rows } = await pool.query("select status from invoice where id = 42");
  console.log(`the invoice was written ${rows[0].status}`);
}

await pool.end();
await locks.close();
