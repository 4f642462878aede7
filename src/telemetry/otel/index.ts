/** Spans and metrics of locks, for OpenTelemetry. */
export { instrument, type InstrumentOptions } from "./instrument.ts";
export type { Template } from "../groups.ts";
export type { Telemetry } from "../telemetry.ts";
