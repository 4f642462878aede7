// A process of the drop-in for redlock that takes turns on one lock: see ../take-turns.mjs. With `clean` over Holdfast's plain keys.
import Redlock from "../../dist/drop-ins/redlock/index.js";
import { takeTurns } from "../plain/redlock-turns.mjs";

const { clean } = JSON.parse(process.argv[2]);
await takeTurns(Redlock, async ([client]) => (clean ? (await import("./plain-keys.mjs")).locksOf(client) : {}));
