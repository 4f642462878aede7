/** Log lines about locks, for pino, winston, console and their like. */
export { logEvents, type LogOptions } from "./log-events.ts";
export type { Logger } from "./logger.ts";
export type { Telemetry } from "../telemetry.ts";
