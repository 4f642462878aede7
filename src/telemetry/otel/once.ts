/**
 * What may be on only once in a process: two that count would count everything twice, and two that trace would take each other's
 * place in the context. Two copies of this package hear the same events, so it is the process that knows.
 */
const ON = Symbol.for("holdfast.otel.on");

type What = "instrument" | "metrics";

interface On extends Partial<Record<What, object | undefined>> {
  /** The last that counted, also after its end. */
  lastMetrics?: object | undefined;
}

const WHY: Readonly<Record<What, string>> = {
  instrument: "holdfast/otel is on already in this process: end the first instrument() before the second.",
  metrics:
    "holdfast/otel counts already in this process, by instrument() or by metricProducer(): end that one first, or give " +
    "instrument() `metrics: false`. Otherwise everything would be counted twice.",
};

const on: On = ((globalThis as { [ON]?: On })[ON] ??= {});

/** From now on it is this one. Throws while there is another. What returned ends that. */
export function only(what: What, one: object): () => void {
  if (on[what] !== undefined) throw new Error(WHY[what]);
  on[what] = one;
  return () => {
    if (on[what] === one) on[what] = undefined;
  };
}

/** It counts now: what others counted before is reported no more. */
export function replaceOthers(one: object): void {
  on.lastMetrics = one;
}

/** Whether another has counted since, also where that has ended: it may still tell what it counted. */
export function isReplaced(one: object): boolean {
  return on.lastMetrics !== one;
}
