// A process of the drop-in for redis-semaphore that takes turns on one mutex: see ../take-turns.mjs.
import * as library from "../../dist/drop-ins/redis-semaphore/index.js";
import { takeTurns } from "./mutex-turns.mjs";

await takeTurns(library);
