// A process of redis-semaphore (npm) that takes turns on one mutex: see ../take-turns.mjs.
import * as library from "redis-semaphore";
import { takeTurns } from "./mutex-turns.mjs";

await takeTurns(library);
