/** The figures as OpenTelemetry names them, added up by its instruments or in memory of our own. */
import { type Attributes, ValueType } from "@opentelemetry/api";
import { type Facts, factsAs, type FactNames, type Metric } from "../metrics.ts";

/** The instrumentation scope of all that is reported. */
export const SCOPE = "holdfast";

const ATTRIBUTES: FactNames = {
  backend: "holdfast.backend",
  mode: "holdfast.mode",
  template: "holdfast.lock.template",
  outcome: "holdfast.outcome",
  errorType: "error.type",
  loss: "holdfast.loss",
  guard: "holdfast.guard",
};

export function attributesOf(facts: Facts): Attributes {
  return factsAs(ATTRIBUTES, facts);
}

/** Only seconds have a part behind the point. */
export function valueTypeOf({ unit }: Metric): ValueType {
  return unit === "s" ? ValueType.DOUBLE : ValueType.INT;
}
