/**
 * Spans: one for an acquire, one for a lease. The lease is not inside the acquire, which is over by then, but linked to it; an
 * acquire that had to wait is linked to the acquires of those who held the lock, by what they left in their `meta`.
 *
 * Nothing in them has the name of a lock unless the template gives it: errors are not recorded, because their messages do.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import type { Channel } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context,
  INVALID_TRACEID,
  type Span,
  type SpanContext,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from "@opentelemetry/api";
import { acquireChannel, type AcquireEvent, fill, holdChannel, type HoldEvent } from "../../contract/events.ts";
import { HOLDER_MAX } from "../../contract/foreign.ts";
import { clean } from "../clean.ts";
import type { Templates } from "../groups.ts";
import { acquireErrorType, holdErrorType, holdOutcome, lossKind } from "../outcome.ts";
import { type Guard, listen } from "../telemetry.ts";
import { fromTraceparent, linksTo, toTraceparent } from "./traceparent.ts";

type Begin<E> = (event: E) => Span;

export class Spans {
  readonly #tracer: Tracer;
  readonly #templates: Templates;
  readonly #guard: Guard;
  readonly #open: Map<AcquireEvent | HoldEvent, Span> = new Map();
  readonly #ends: (() => void)[] = [];
  #isOver = false;

  constructor(tracer: Tracer, templates: Templates, guard: Guard, storage: AsyncLocalStorage<Context> | undefined) {
    this.#tracer = tracer;
    this.#templates = templates;
    this.#guard = guard;
    this.#begin(acquireChannel.start as Channel, storage, (event: AcquireEvent) => this.#beginAcquire(event));
    this.#begin(holdChannel.start as Channel, storage, (event: HoldEvent) => this.#beginHold(event));
    const listeners = {
      acquireEnd: (event: AcquireEvent): void => this.#end(event, tellAcquire),
      holdEnd: (event: HoldEvent): void => this.#end(event, tellHold),
    };
    this.#ends.push(listen(listeners, guard));
  }

  /** What is open ends now: a span that never ends is never seen. */
  end(): void {
    this.#isOver = true;
    for (const end of this.#ends.splice(0)) end();
    for (const span of this.#open.values()) this.#guard.call(() => span.end());
    this.#open.clear();
  }

  /** Each begins in the context of its caller, and, where that can be, what follows runs in its own. */
  #begin<E extends AcquireEvent | HoldEvent>(
    channel: Channel,
    storage: AsyncLocalStorage<Context> | undefined,
    begin: Begin<E>,
  ): void {
    const open = (event: E): Context => {
      const around = context.active();
      // Where it is ended in the middle of an event, Node calls it once more: nothing would end that span.
      if (this.#isOver || isLeftOut(trace.getSpan(around))) return around;
      const span = begin(event);
      if (span.isRecording()) this.#open.set(event, span);
      // Where the caller's trace is not sampled, that goes on: nothing is to be seen of this one.
      else if (trace.getSpan(around) !== undefined) return around;
      return trace.setSpan(around, span);
    };
    if (storage === undefined) {
      const hear = (event: unknown): void => void this.#guard.call(() => open(event as E));
      channel.subscribe(hear);
      this.#ends.push(() => {
        channel.unsubscribe(hear);
      });
      return;
    }
    const enter = (event: unknown): Context | undefined =>
      this.#guard.call(() => open(event as E)) ?? storage.getStore();
    channel.bindStore(storage as AsyncLocalStorage<unknown>, enter);
    this.#ends.push(() => {
      channel.unbindStore(storage as AsyncLocalStorage<unknown>);
    });
  }

  #beginAcquire(event: AcquireEvent): Span {
    const span = this.#start("acquire", event, {}, undefined);
    // The span is there whatever fails here. Another subscriber may have added something, too, or have frozen it.
    this.#guard.call(() => {
      const spanContext = span.spanContext();
      if ((spanContext.traceFlags & TraceFlags.SAMPLED) !== 0)
        fill(event, { meta: { traceparent: toTraceparent(spanContext), ...event.meta } });
    });
    return span;
  }

  #beginHold(event: HoldEvent): Span {
    const { fence, ttlMs, localHandOver, acquired } = event;
    const attributes = {
      "holdfast.fence": String(fence),
      "holdfast.ttl": ttlMs / 1000,
      "holdfast.local_hand_over": localHandOver,
    };
    // What its acquire wrote for others is the way to its span here, too: kept apart, it would cost more than the span.
    const linked = acquired?.meta === undefined ? undefined : fromTraceparent(acquired.meta["traceparent"], false);
    return this.#start("hold", event, attributes, linked);
  }

  #start(
    verb: string,
    { backend, mode, name }: AcquireEvent | HoldEvent,
    more: Attributes,
    linked: SpanContext | undefined,
  ): Span {
    const template = this.#templates.of(name);
    const attributes: Attributes = { "holdfast.backend": backend, "holdfast.mode": mode, ...more };
    if (template !== "") attributes["holdfast.lock.template"] = template;
    const links = linked === undefined ? {} : { links: [{ context: linked }] };
    return this.#tracer.startSpan(template === "" ? verb : `${verb} ${template}`, { attributes, ...links });
  }

  /** It ends, whatever fails on the way: a span that never ends is never seen. */
  #end<E extends AcquireEvent | HoldEvent>(event: E, tell: (span: Span, event: E) => void): void {
    const span = this.#open.get(event);
    if (span === undefined) return;
    this.#open.delete(event);
    try {
      tell(span, event);
    } finally {
      span.end();
    }
  }
}

/**
 * The trace of the caller is known not to be sampled, by a span of this process: samplers that go by the parent say the same of ours,
 * but only after ids, attributes and two contexts were made for it. A caller of another process says no such thing, nor does a span
 * without a trace, which is what there is without an SDK.
 */
function isLeftOut(caller: Span | undefined): boolean {
  if (caller === undefined || caller.isRecording()) return false;
  const { traceFlags, traceId, isRemote = false } = caller.spanContext();
  return (traceFlags & TraceFlags.SAMPLED) === 0 && !isRemote && traceId !== INVALID_TRACEID;
}

function tellAcquire(span: Span, event: AcquireEvent): void {
  const { outcome = "error", contended = false, attempts = 0, position, heldBy, fence } = event;
  const attributes: Attributes = {
    "holdfast.outcome": outcome,
    "holdfast.contended": contended,
    "holdfast.attempts": attempts,
  };
  if (position !== undefined) attributes["holdfast.position"] = position;
  if (fence !== undefined) attributes["holdfast.fence"] = String(fence);
  const [first] = heldBy ?? [];
  if (first !== undefined) attributes["holdfast.held_by"] = clean(first.holder, HOLDER_MAX);
  span.setAttributes(attributes);
  fail(span, acquireErrorType(event));
  if (contended) for (const link of linksTo(heldBy)) span.addLink(link);
}

function tellHold(span: Span, event: HoldEvent): void {
  span.setAttribute("holdfast.outcome", holdOutcome(event));
  const loss = lossKind(event);
  if (loss !== undefined) span.setAttribute("holdfast.loss", loss);
  fail(span, holdErrorType(event));
}

function fail(span: Span, errorType: string | undefined): void {
  if (errorType === undefined) return;
  span.setAttribute("error.type", errorType);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
