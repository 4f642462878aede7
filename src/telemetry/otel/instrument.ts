/** Turns OpenTelemetry on for all locks of this process. */
import { metrics, type MeterProvider, trace, type TracerProvider } from "@opentelemetry/api";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { installedVersion, whyUnsupported } from "../../contract/peer-version.ts";
import { checkOptions, type TemplateOptions, Templates } from "../groups.ts";
import { endedBy, Guard, type Telemetry } from "../telemetry.ts";
import { SCOPE } from "./attributes.ts";
import { contextStorage } from "./context-storage.ts";
import { meter } from "./meters.ts";
import { only, replaceOthers } from "./once.ts";
import { Spans } from "./spans.ts";

/** Spans are linked after their start from this version on. */
export const OLDEST_API: readonly string[] = ["1.9.0"];

const why = whyUnsupported("@opentelemetry/api", installedVersion("@opentelemetry/api", import.meta.url), OLDEST_API);
if (why !== undefined) throw new ArgumentError(`holdfast/otel: ${why}`);

export interface InstrumentOptions extends TemplateOptions {
  /** `false`: no spans. @default true */
  readonly traces?: boolean | undefined;
  /** `false`: no metrics, or those of a metricProducer(). @default true */
  readonly metrics?: boolean | undefined;
  /** @default the global one */
  readonly tracerProvider?: TracerProvider | undefined;
  /** @default the global one */
  readonly meterProvider?: MeterProvider | undefined;
}

/**
 * From now on, acquires and leases have spans and are counted. Call it when the SDK has started. Throws when it is on already:
 * everything would be counted twice.
 */
export function instrument(options: InstrumentOptions = {}): Telemetry {
  const { template, tracerProvider, meterProvider } = checkOptions(options);
  const wants = { traces: wanted(options, "traces"), metrics: wanted(options, "metrics") };
  const guard = new Guard("holdfast/otel");
  const templates = new Templates(template, guard);
  const ends: (() => void)[] = [];
  const endAll = (): void => {
    for (const end of ends.splice(0)) end();
  };
  try {
    ends.push(only("instrument", ends));
    if (wants.metrics) {
      ends.push(only("metrics", ends));
      ends.push(meter((meterProvider ?? metrics).getMeter(SCOPE), templates, guard));
    }
    if (wants.traces) {
      const spans = new Spans((tracerProvider ?? trace).getTracer(SCOPE), templates, guard, contextStorage());
      ends.push(() => spans.end());
    }
    if (wants.metrics) replaceOthers(ends);
  } catch (error) {
    endAll();
    throw error;
  }
  return endedBy(endAll);
}

function wanted(options: InstrumentOptions, signal: "traces" | "metrics"): boolean {
  const { [signal]: given = true } = options;
  if (typeof given === "boolean") return given;
  throw new ArgumentError(`Expected \`${signal}\` to be true or false, got ${got(given)}`);
}
