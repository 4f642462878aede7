import pg from "pg";
import { SHEDLOCK_TABLE, shedlock } from "../../src/backends/shedlock/index.ts";
import { startPostgres } from "../../src/lab/servers/postgres.ts";
import { conformanceTests } from "./conformance-tests.ts";

const QUEUE = "ShedLock's table has no queue: who waits asks again, and the first to ask after a release is granted";
const ONE = "ShedLock's table has one row for a lock, so it knows neither readers nor a limit";
const META = "ShedLock's table has no place for meta, nor for what a process says of its queue";
const FORCE = "ShedLock's table says who ended a lease by force until the next claim, and no message reaches a holder";
const DELAY = "ShedLock's table has one time for the end of a lease, in which ttl and lockDelay are one";
const NAMES = "names in ShedLock's table are texts of Postgres, which hold no NUL";

const stops: (() => Promise<void>)[] = [];
conformanceTests({
  name: "shedlock",
  start: async () => {
    const server = await startPostgres();
    stops.push(() => server.stop());
    await server.sql(SHEDLOCK_TABLE);
    // So that random names of the suite fit; the usual limit is tested in test/backends/shedlock.
    await server.sql("alter table shedlock alter name type text");
    const pool = new pg.Pool({ connectionString: server.url, max: 8 });
    pool.on("error", () => undefined);
    stops.push(() => pool.end());
    return { open: () => shedlock(pool) };
  },
  stop: async () => {
    for (const stop of stops.toReversed()) await stop();
  },
  cannot: ["outcomes", "wanted", "steal", "waiters", "linger"],
  declined: {
    "removes a waiting claim on release": QUEUE,
    "grants waiting claims in the order in which they came, even when no message arrives": QUEUE,
    "lets no claim pass the queue, not even one that does not queue": QUEUE,
    "keeps one place for a claim that asks again while it waits": QUEUE,
    "moves the others up when a waiting claim leaves": QUEUE,
    "brings a waiter news when its turn has come": QUEUE,
    "trusts a grant that came as news no longer than the store keeps it": QUEUE,
    "ends a watch when its signal aborts, and keeps the claim's place": QUEUE,
    "does not leave a watch hanging when the grant came before it": QUEUE,
    "hands over in one step: swap() releases one claim and attempts the next": QUEUE,
    "lets those who wait go first in a swap()": QUEUE,
    "shows who waits, in order": QUEUE,
    "leaves nothing in the store after everything has ended": ONE,
    "fences a shared lease at or above the last exclusive one and below the next": ONE,
    "reserves no run where several may hold, so that later holders always have greater fences": ONE,
    "lets shared claims hold together, and an exclusive one only when all have left": ONE,
    "keeps shared claims out while an exclusive one holds, then lets all of them in": ONE,
    "does not let a stream of readers starve a waiting writer": ONE,
    "lets as many hold as the limit says, and one more for each that leaves": ONE,
    "keeps shared and limited claims apart": ONE,
    "refuses a claim whose limit differs from the holders', naming both": ONE,
    "takes a new limit once no claim holds or waits": ONE,
    "ends a dead reader's lease at its own time, though other readers keep renewing": ONE,
    "answers each renewal by itself, in the order asked": ONE,
    "keeps no claim away for a minHold that the release does not name: the lease was never used": ONE,
    "ends by force one of several holders, and leaves the others": ONE,
    "never says busy to a reader's try once the writer is gone, also while a reader of its process waits": ONE,
    "shows who holds: name, mode, limit, holder, fence, age, remaining time and meta": META,
    "shows what a process says of its own queue, and writes it anew when it has changed": META,
    "reports to the holder that its lease was ended by force, and why": FORCE,
    "shows one lock by its exact name: who holds it, who waits in which order, who was forced out": FORCE,
    "says of a lock that is only kept for its lockDelay that no claim holds it": DELAY,
    "takes any string as a name, and never confuses two": NAMES,
  },
});
