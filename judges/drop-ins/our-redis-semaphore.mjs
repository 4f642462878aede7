// A process of the drop-in for redis-semaphore that takes turns on one lock: see ../take-turns.mjs. With `clean` over Holdfast's plain keys.
import * as library from "../../dist/drop-ins/redis-semaphore/index.js";
import { takeTurns } from "../plain/mutex-turns.mjs";

const { clean } = JSON.parse(process.argv[2]);
await takeTurns(library, async ([client]) => (clean ? (await import("./plain-keys.mjs")).locksOf(client) : {}));
