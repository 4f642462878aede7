// A process of redlock (npm) that takes turns on one lock: see ../take-turns.mjs.
import Redlock from "redlock";
import { takeTurns } from "./redlock-turns.mjs";

await takeTurns(Redlock.default ?? Redlock);
