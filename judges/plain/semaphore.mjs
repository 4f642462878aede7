// A process of redis-semaphore (npm) that takes turns on one semaphore: see ../take-turns.mjs.
import * as library from "redis-semaphore";
import { takeTurns } from "./semaphore-turns.mjs";

// No long sections: the time of its permit is that of its own clock, read before the question. Who is stopped in between has less of it than it believes.
await takeTurns(library);
