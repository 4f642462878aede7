// A process of the drop-in for redis-semaphore that takes turns on one semaphore: see ../take-turns.mjs.
import * as library from "../../dist/drop-ins/redis-semaphore/index.js";
import { takeTurns } from "./semaphore-turns.mjs";

await takeTurns(library, { longOneIn: 20 });
