// A process of the drop-in for redis-semaphore that takes turns on one lock: see ../take-turns.mjs. With `clean` over Holdfast's plain keys.
import * as library from "../../dist/drop-ins/redis-semaphore/index.js";
import { takeTurns } from "../plain/mutex-turns.mjs";

const { clean, limit = 1 } = JSON.parse(process.argv[2]);
const locksOf = async ([client]) => (clean ? (await import("./plain-keys.mjs")).locksOf(client) : {});
// Of a semaphore, one in twenty sections is longer than a ttl, and lives by refreshes. Not theirs: the time of its permit is that of its own clock,
// read before the question, and one that is stopped in between has less of it than it believes.
await takeTurns(library, locksOf, limit > 1 ? { longOneIn: 20 } : {});
