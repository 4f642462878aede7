// A process of the drop-in for redlock that takes turns on one lock: see ../take-turns.mjs.
import Redlock from "../../dist/drop-ins/redlock/index.js";
import { takeTurns } from "./redlock-turns.mjs";

await takeTurns(Redlock);
